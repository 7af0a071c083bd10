"""The rule that searches through the log take turns is left out; a named test must find that."""

import asyncio

import pytest

from broker import test_searches
from semel.lane.searches import StoredBatches
from support.compiled import plain_python


@plain_python
def test_searches_that_all_take_a_step_at_once_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def at_once(batches: StoredBatches) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(StoredBatches, "pause", at_once)
    with pytest.raises(AssertionError):
        test_searches.test_however_many_search_one_tick_of_the_loop_reads_a_few_batches()

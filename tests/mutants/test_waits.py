"""A reply that does not wait for what it must; a named test finds it."""

import pytest

from broker import test_waits
from mutants import broker_bugs
from support.compiled import plain_python


@plain_python
def test_a_duplicate_that_does_not_wait_for_its_original_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker_bugs.a_duplicate_does_not_wait_for_its_original(monkeypatch)
    with pytest.raises(BaseExceptionGroup) as death:
        test_waits.test_a_retry_waits_as_its_original_does(-1)
    assert death.group_contains(AssertionError)

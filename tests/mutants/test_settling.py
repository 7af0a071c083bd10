"""A step of settling that comes too early; a named test finds it."""

import pytest

from lane import test_settling
from mutants import forgetting_bugs


def test_segments_that_go_before_it_is_durable_that_nobody_needs_them_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgetting_bugs.segments_go_before_it_is_durable_that_nobody_needs_them(monkeypatch)
    with pytest.raises(AssertionError):
        test_settling.test_segments_stay_until_it_is_durable_that_nobody_needs_them()

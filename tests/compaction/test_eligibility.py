"""When it is worth it to compact a partition."""

import pytest

from semel.compaction.eligibility import Dirtiness

NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("clean", "dirty", "expected"), [(50, 50, False), (49, 51, True), (0, 1, True), (0, 0, False)]
)
def test_more_than_the_ratio_must_be_dirty(clean: int, dirty: int, expected: bool) -> None:
    assert Dirtiness(clean, dirty, None).is_eligible(NOW_MS, 0.5, 10**9) is expected


@pytest.mark.parametrize(
    ("oldest_ms", "expected"), [(NOW_MS - 10, False), (NOW_MS - 11, True), (None, False)]
)
def test_what_is_dirty_for_too_long_is_compacted_whatever_the_ratio(
    oldest_ms: int | None, expected: bool
) -> None:
    assert Dirtiness(99, 1, oldest_ms).is_eligible(NOW_MS, 0.5, 10) is expected
    assert not Dirtiness(99, 0, oldest_ms).is_eligible(NOW_MS, 0.5, 10)


def test_the_filthiest_comes_first() -> None:
    some = [Dirtiness(50, 50, None), Dirtiness(10, 90, None), Dirtiness(0, 0, None)]
    assert [each.ratio for each in sorted(some, key=lambda each: -each.ratio)] == [0.9, 0.5, 0.0]

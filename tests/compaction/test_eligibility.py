"""What may be compacted, and when it is worth it."""

import pytest

from semel.compaction.eligibility import Dirtiness, Extent, cleanable_end
from semel.types import Offset

NOW_MS = 1_000_000


def extents(*columns: tuple[int, int]) -> list[Extent]:
    return [Extent(Offset(base), max_ms) for base, max_ms in columns]


@pytest.mark.parametrize(
    ("last_stable", "active", "expected"),
    [(50, 80, 50), (80, 50, 50)],
    ids=["an open transaction", "what is written to"],
)
def test_the_end_is_before(last_stable: int, active: int, expected: int) -> None:
    end = cleanable_end(Offset(last_stable), Offset(active), extents((0, NOW_MS)), NOW_MS, 0)
    assert end == expected


@pytest.mark.parametrize(("lag_ms", "expected"), [(10, 50), (11, 20), (20, 20), (21, 0), (1, 50)])
def test_the_end_is_before_the_first_extent_with_a_young_record(lag_ms: int, expected: int) -> None:
    dirty = extents((0, NOW_MS - 20), (20, NOW_MS - 10), (40, NOW_MS - 30))
    assert cleanable_end(Offset(50), Offset(60), dirty, NOW_MS, lag_ms) == expected


def test_an_extent_whose_records_are_of_the_future_is_young() -> None:
    dirty = extents((0, NOW_MS + 1), (20, NOW_MS - 10))
    assert cleanable_end(Offset(50), Offset(60), dirty, NOW_MS, 1) == 0
    assert cleanable_end(Offset(50), Offset(60), dirty, NOW_MS, 0) == 50


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

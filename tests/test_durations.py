"""Durations are counted where they belong, however short or long."""

from hypothesis import given
from hypothesis import strategies as st

from semel.durations import BOUNDS_S, Durations

A_YEAR_S = 31_557_600.0


@given(st.lists(st.floats(min_value=0, max_value=A_YEAR_S)))
def test_each_is_counted_below_the_first_bound_that_it_does_not_reach(
    durations: list[float],
) -> None:
    counted = Durations()
    for duration_s in durations:
        counted.add(duration_s)
    expected = [0] * (len(BOUNDS_S) + 1)
    for duration_s in durations:
        below = [number for number, bound in enumerate(BOUNDS_S) if duration_s < bound]
        expected[below[0] if below else len(BOUNDS_S)] += 1
    assert counted.by_bound == expected
    total = Durations()
    total.add_all(counted)
    total.add_all(counted)
    assert total.by_bound == [2 * count for count in expected]
    assert total.sum_s == 2 * counted.sum_s

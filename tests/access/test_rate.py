"""What was used of late is what one gets who looks at every use there ever was, as Kafka counts."""

import math

from hypothesis import given
from hypothesis import strategies as st

from semel.access.rate import Rate, Windows

SMALL = Windows(number=3, size_ms=10)
USES = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 100)), min_size=1, max_size=40)
"""Milliseconds since the use before, and how much."""


def naive_windows(uses: list[tuple[int, int]], size_ms: int) -> list[list[tuple[int, int]]]:
    """A window begins with the first use after the end of the one before."""
    windows: list[list[tuple[int, int]]] = []
    for at_ms, amount in uses:
        if not windows or at_ms >= windows[-1][0][0] + size_ms:
            windows.append([])
        windows[-1].append((at_ms, amount))
    return windows


def naive_rate(uses: list[tuple[int, int]], windows: Windows, now_ms: int) -> tuple[float, float]:
    """Each second, and the seconds that it is spread over."""
    kept_ms = windows.number * windows.size_ms
    kept = [
        window
        for window in naive_windows(uses, windows.size_ms)
        if now_ms - max(at_ms for at_ms, _ in window) < kept_ms
    ]
    amount = sum(amount for window in kept for _, amount in window)
    elapsed_ms = now_ms - kept[0][0][0] if kept else 0
    whole = elapsed_ms // windows.size_ms
    elapsed_ms += max(0, windows.number - 1 - whole) * windows.size_ms
    elapsed_s = max(elapsed_ms, 1) / 1000
    return amount / elapsed_s, elapsed_s


@given(USES, st.integers(0, 100), st.sampled_from([SMALL, Windows(1, 10), Windows(2, 1)]))
def test_the_rate_is_that_of_all_uses_in_the_windows_that_are_kept(
    steps: list[tuple[int, int]], later_ms: int, windows: Windows
) -> None:
    rate = Rate(windows)
    uses: list[tuple[int, int]] = []
    now_ms = 1_000
    for passed_ms, amount in steps:
        now_ms += passed_ms
        rate.use(amount, now_ms)
        uses.append((now_ms, amount))
        assert math.isclose(rate.per_second(now_ms), naive_rate(uses, windows, now_ms)[0])
    now_ms += later_ms
    expected, elapsed_s = naive_rate(uses, windows, now_ms)
    assert math.isclose(rate.per_second(now_ms), expected)
    for bound in (1.0, 100.0, 3_333.3):
        wait_ms = max(0.0, (expected - bound) / bound * elapsed_s * 1000)
        assert abs(rate.throttle_ms(bound, now_ms) - wait_ms) <= 0.5 + wait_ms * 1e-9


@given(USES, st.floats(1, 1e6))
def test_who_waits_as_long_as_was_said_is_within_the_bound_then(
    steps: list[tuple[int, int]], bound: float
) -> None:
    rate = Rate(SMALL)
    now_ms = 0
    for passed_ms, amount in steps:
        now_ms += passed_ms
        rate.use(amount, now_ms)
    now_ms += rate.throttle_ms(bound, now_ms)
    # Half a millisecond is rounded away.
    assert rate.per_second(now_ms + 1) <= bound * (1 + 1e-9)


def test_what_fits_the_windows_may_be_used_at_once_and_not_a_byte_more() -> None:
    windows = Windows()
    rate = Rate(windows)
    rate.use(100 * windows.most, 5)
    assert rate.throttle_ms(100, 5) == 0
    rate.use(1, 5)
    assert rate.throttle_ms(100, 5) == 10


def test_what_is_over_is_forgotten() -> None:
    rate = Rate(Windows())
    rate.use(1e9, 0)
    assert not rate.is_idle(10_999)
    assert rate.is_idle(11_000)
    assert rate.per_second(11_000) == 0

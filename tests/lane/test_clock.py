"""The lane's time: it passes while someone watches, and jumps with no clock."""

from random import Random

import pytest

from semel.lane.clock import JUMP_MS_MIN, WATCHED_MS, LaneClock
from semel.world import Moment

WALL_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


class Clocks:
    def __init__(self) -> None:
        self.wall = WALL_MS
        self.monotonic = 77

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def pass_time(self, duration_ms: int) -> None:
        self.wall += duration_ms
        self.monotonic += duration_ms


@pytest.mark.parametrize("seed", range(20))
def test_it_follows_what_passes_and_no_jump(seed: int) -> None:
    rng = Random(f"clock {seed}")
    clocks = Clocks()
    clock = LaneClock(clocks, None, 0)
    passed_ms = 0
    latest_ms = clocks.wall
    for _ in range(200):
        step_ms = rng.randint(0, WATCHED_MS)
        clocks.pass_time(step_ms)
        passed_ms += step_ms
        if rng.random() < 0.2:
            clocks.wall += rng.choice((1, -1)) * rng.randint(0, 10 ** rng.randint(1, 13))
        latest_ms = max(latest_ms, clocks.wall)
        at = clock.moment()
        clock.in_frame(at)
        assert at.now_ms == WALL_MS + passed_ms
        # Shown is the wall clock, as far as that does not go back.
        assert at.wall_ms == latest_ms
        assert clock.look() == WALL_MS + passed_ms


def test_time_that_nobody_watched_is_not_counted() -> None:
    clocks = Clocks()
    clock = LaneClock(clocks, None, 0)
    clocks.pass_time(HOUR_MS)
    assert clock.now_ms() == WALL_MS + WATCHED_MS
    assert clock.look() == WALL_MS + WATCHED_MS
    clocks.pass_time(WATCHED_MS)
    assert clock.now_ms() == WALL_MS + 2 * WATCHED_MS


@pytest.mark.parametrize(
    ("wall_ms", "rest_ms"),
    [(WALL_MS, 0), (WALL_MS + HOUR_MS, HOUR_MS), (WALL_MS - 1, 0), (0, 0)],
)
def test_a_rest_is_what_the_wall_clock_says_and_never_negative(wall_ms: int, rest_ms: int) -> None:
    clocks = Clocks()
    clocks.wall = wall_ms
    clock = LaneClock(clocks, Moment(now_ms=123, wall_ms=WALL_MS), WALL_MS - 123)
    assert clock.now_ms() == 123 + rest_ms
    assert clock.wall_ms() == max(wall_ms, WALL_MS)


def test_a_jump_is_what_the_next_process_would_take_for_a_rest() -> None:
    clocks = Clocks()
    clock = LaneClock(clocks, None, 0)
    clocks.pass_time(WATCHED_MS)
    assert not clock.has_jumped(0)
    clocks.wall += JUMP_MS_MIN - 1
    assert not clock.has_jumped(0)
    clocks.wall += 1
    assert clock.has_jumped(0)
    noted = clock.moment()
    assert not clock.has_jumped(noted.wall_ms - noted.now_ms)
    clocks.wall -= HOUR_MS
    assert not clock.has_jumped(noted.wall_ms - noted.now_ms)

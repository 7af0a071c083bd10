"""The rules about time are left out one by one; the simulation or a named test must notice."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from broker import test_clocks, test_stalls
from semel.broker.server import Server
from semel.lane import clock
from semel.lane.clock import LaneClock
from semel.lane.lane import Lane
from semel.transactions.store import Transactions
from semel.verify.run import run_seed
from semel.verify.workloads.workload import CLOCKS

Plant = Callable[[pytest.MonkeyPatch], None]
Kill = Callable[[], None]

SEEDS = range(111, 151)
"""Such that they show every symptom; being expelled is the rarest, about once in twenty."""


def time_is_what_the_wall_clock_says(patch: pytest.MonkeyPatch) -> None:
    for name in ("now_ms", "look"):
        patch.setattr(LaneClock, name, LaneClock.wall_ms)


@pytest.mark.parametrize(
    "symptom",
    [
        "was expelled",
        "aborted by its timer",
        "stands twice or out of order",
        "members that did not go",
        "never committed or aborted",
    ],
)
def test_the_simulation_notices_that_time_follows_the_wall_clock(
    symptom: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_is_what_the_wall_clock_says(monkeypatch)
    for seed in SEEDS:
        if any(re.search(symptom, anomaly) for anomaly in run_seed(seed, CLOCKS).anomalies):
            return
    pytest.fail(f"{len(SEEDS)} seeds did not show {symptom!r}")


def nobody_notes_a_jump(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lane, "note_jump", lambda lane: None)


def a_rest_may_be_negative(patch: pytest.MonkeyPatch) -> None:
    init = LaneClock.__init__

    def rested(self: Any, machine: Any, last: Any, wall_ahead_ms: int) -> None:
        init(self, machine, last, wall_ahead_ms)
        if last is not None:
            self._looked_ms = machine.wall_ms() - wall_ahead_ms

    patch.setattr(LaneClock, "__init__", rested)


def a_rest_does_not_count(patch: pytest.MonkeyPatch) -> None:
    init = LaneClock.__init__

    def rested(self: Any, machine: Any, last: Any, wall_ahead_ms: int) -> None:
        init(self, machine, last, wall_ahead_ms)
        if last is not None:
            self._looked_ms = last.now_ms

    patch.setattr(LaneClock, "__init__", rested)


def shown_times_may_go_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LaneClock, "wall_ms", lambda self: self._clock.wall_ms())


def timers_of_transactions_run_on_over_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "start_timers", lambda store, now_ms: None)


def what_waits_is_not_read_before_anyone_is_judged(patch: pytest.MonkeyPatch) -> None:
    async def nothing(server: Server) -> None:
        pass

    patch.setattr(Server, "read_what_waits", nothing)


def a_stall_is_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clock, "WATCHED_MS", 10**12)


def for_each(test: Callable[[int], None]) -> Kill:
    def kill() -> None:
        for seed in test_stalls.SEEDS:
            test(seed)

    return kill


BUGS: tuple[tuple[Plant, Kill], ...] = (
    (
        nobody_notes_a_jump,
        partial(test_clocks.test_a_jump_that_was_seen_does_not_come_back_as_a_rest, False),
    ),
    (
        a_rest_may_be_negative,
        partial(
            test_clocks.test_a_clock_that_went_back_over_a_rest_neither_forgets_early_nor_never,
            -test_clocks.HOUR_MS,
        ),
    ),
    (a_rest_does_not_count, test_clocks.test_a_rest_counts_for_as_long_as_the_wall_clock_says),
    (
        shown_times_may_go_back,
        test_clocks.test_times_in_records_are_those_of_the_wall_clock_and_never_go_back,
    ),
    (
        timers_of_transactions_run_on_over_a_restart,
        partial(test_clocks.test_timers_start_anew_when_the_broker_opens, 0),
    ),
    (
        what_waits_is_not_read_before_anyone_is_judged,
        for_each(test_stalls.test_a_heartbeat_that_waits_is_heard_before_its_member_is_judged),
    ),
    (a_stall_is_counted, for_each(test_stalls.test_a_stall_is_nobodys_silence)),
)


@pytest.mark.parametrize(("plant", "kill"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
def test_a_planted_bug_dies(plant: Plant, kill: Kill, monkeypatch: pytest.MonkeyPatch) -> None:
    kill()
    plant(monkeypatch)
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        kill()

"""Bugs to plant into nodes that share a store: the absence of a rule about slots and takeovers."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from mutants.broker_bugs import Bug, Patch
from semel.journal.slots import history, landing, opening, replay, writer
from semel.journal.slots.calls import Calls
from semel.journal.slots.entries import Entry
from semel.journal.slots.landing import Found
from semel.lane.clock import LaneClock
from semel.store.seam import ObjectExists, StoreAway, StoreRefused
from semel.types import Buffer
from semel.world import Clock, Moment

# Rule 15


def an_error_is_taken_for_success(patch: Patch) -> None:
    async def land(calls: Calls, key: str, parts: Sequence[Buffer], nonce: bytes) -> Entry | None:
        with contextlib.suppress(ObjectExists, StoreAway, StoreRefused):
            await calls.create(key, parts)
        return None

    patch.setattr(writer, "land", land)


def every_entry_is_ours(patch: Patch) -> None:
    judge = landing.judge

    def generous(nonce: bytes | None, entry: Entry | None) -> Found:
        found = judge(nonce, entry)
        return Found.OURS if found is Found.FOREIGN else found

    patch.setattr(landing, "judge", generous)


# Rule 17


def the_term_never_rises(patch: Patch) -> None:
    def fenced(standing: history.Standing, epoch: int) -> history.Standing:
        term = max(standing.term, 0)
        return standing._replace(epoch=epoch, term=term, is_sealed=False)

    patch.setattr(opening, "fenced", fenced)
    patch.setattr(replay, "fenced", fenced)
    patch.setattr(opening, "may_miss_acknowledged", lambda standing: False)


# Rule 18


def nothing_waits_for_a_barrier(patch: Patch) -> None:
    def when_alone(self: writer.Writer, callback: Callable[[], None]) -> None:
        self.when_durable(self._end, callback)

    patch.setattr(writer.Writer, "when_alone", when_alone)


# Rule 31


def the_boundary_is_not_read_again(patch: Patch) -> None:
    patch.setattr(opening, "look_again", lambda newest, fence, began: opening.Boundary.HOLDS)


# Rule 36


def time_goes_by_the_wall_clock(patch: Patch) -> None:
    """Of whichever machine leads."""

    def init(self: Any, clock: Clock, last: Moment | None, wall_ahead_ms: int) -> None:
        original(self, clock, None, 0)

    original = LaneClock.__init__
    patch.setattr(LaneClock, "__init__", init)


STALE = "was said to end at|had [0-9]+ committed"

FAILOVER_BUGS = [
    Bug(15, an_error_is_taken_for_success, "not serving|was acknowledged|could not open", 1),
    Bug(15, every_entry_is_ours, "could not open its journal|stale-offset|not serving"),
    Bug(17, the_term_never_rises, "was committed and is not whole|answered with 48"),
    Bug(18, nothing_waits_for_a_barrier, STALE),
    Bug(31, the_boundary_is_not_read_again, "was made with|not serving at the end"),
    Bug(36, time_goes_by_the_wall_clock, "time goes back"),
]
"""Rules 16, 32 and 33 are left to cases made for them, beside the journal on slots."""

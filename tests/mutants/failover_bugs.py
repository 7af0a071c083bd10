"""Bugs to plant into nodes that share a store: the absence of a rule about slots and takeovers."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from mutants.broker_bugs import Bug, Patch
from semel.broker.transactional import LateRequests
from semel.journal.slots import entries, history, landing, opening, replay, writer
from semel.journal.slots.barrier import Barriers
from semel.journal.slots.calls import Calls
from semel.journal.slots.entries import Entry, Head
from semel.journal.slots.landing import Found
from semel.lane.clock import LaneClock
from semel.store.seam import ObjectExists, StoreAway, StoreRefused
from semel.types import Buffer, Position
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


def who_goes_seals_before_all_is_durable(patch: Patch) -> None:
    """As if what was answered before it is durable were all there."""
    patch.setattr(opening, "may_miss_acknowledged", lambda standing: False)


# Rule 18


def nothing_waits_for_a_barrier(patch: Patch) -> None:
    def when_alone(self: writer.Writer, callback: Callable[[], None]) -> None:
        self.when_durable(self._end, callback)

    patch.setattr(writer.Writer, "when_alone", when_alone)


def what_is_confirmed_proves(patch: Patch) -> None:
    """Whenever it was begun."""
    proved = Barriers.proved

    def generous(self: Barriers, number: int, durable: Position) -> list[Callable[[], None]]:
        return proved(self, self._begun + 1, durable)

    patch.setattr(Barriers, "proved", generous)


# Rule 28


def late_requests_of_another_reign_are_served(patch: Patch) -> None:
    patch.setattr(LateRequests, "took_over", lambda self, connection_number: None)


# Rule 36


def time_goes_by_the_wall_clock(patch: Patch) -> None:
    """Of whichever machine leads."""

    def init(self: Any, clock: Clock, last: Moment | None, wall_ahead_ms: int) -> None:
        original(self, clock, None, 0)

    original = LaneClock.__init__
    patch.setattr(LaneClock, "__init__", init)


# Rule 37


def any_size_is_taken(patch: Patch) -> None:
    from semel.broker.config import BrokerConfig

    patch.setattr(BrokerConfig, "message_max_bytes", property(lambda self: 2**30), raising=False)


_ = (entries, Head)
FAILOVER_BUGS: list[Bug] = []

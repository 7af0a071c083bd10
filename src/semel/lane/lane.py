"""A lane: one journal, the state that its frames make, and the law that binds the two.

    Decide, append and apply in one step, without awaiting. Then wait until the journal is durable
    up to that point before anything leaves the lane: a reply, a readable record.

A decision made on state that is not yet durable is appended behind that state, so it survives
only if that state does. A crash loses a suffix of the journal and nothing else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from semel.groups.coordinator import Groups
from semel.groups.settings import GroupSettings
from semel.journal.device import UNKNOWN, DiskIdentity
from semel.journal.journal import Journal
from semel.lane import facts, frame, image
from semel.lane.clock import LaneClock
from semel.lane.draft import Draft
from semel.lane.recovery import recover
from semel.lane.state import LaneState
from semel.lane.transaction_steps import TransactionStep, term_aborts
from semel.log.partition import Partition
from semel.transactions.commands import TransactionSettings
from semel.transactions.store import Transactions
from semel.types import Offset, Position, Term
from semel.world import Clock, Moment, Randomness

CLUSTER_ID_SIZE = 16
FACT_SIZE_MAX = 64 * 2**10
"""Bytes. Room that is reserved for a step that writes a few facts."""

ABORTS_SIZE_MAX = 128 * 2**10
"""Bytes. Aborts that share a frame when the term rises; the smallest segment has room for it."""

UNPROVEN = DiskIdentity(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)


class LaneSettings(NamedTuple):
    groups: GroupSettings
    offsets_partition_count: int = 50
    transactions: TransactionSettings = TransactionSettings()
    transactions_partition_count: int = 50


class Lane:
    def __init__(
        self, journal: Journal, settings: LaneSettings, clock: Clock, randomness: Randomness
    ) -> None:
        self.journal = journal
        self.settings = settings
        self.randomness = randomness
        self.unsettled: deque[tuple[Position, Partition, Offset]] = deque()
        """Ends of partitions that become readable when the journal is durable up to a position."""
        self.is_in_step = False
        """Something is applied that no frame in the journal says yet. Law: only within a step."""
        self.state = LaneState(Groups(settings.groups, randomness), Transactions())
        recover(self.state, journal)
        self.clock = LaneClock(clock, self.state.last_moment)

    async def start(self, on_failure: Callable[[BaseException], None]) -> None:
        """Say in the journal who has opened it, and return when that is durable.

        The term rises unless it is certain that every acknowledged byte is still there: a killed
        process loses nothing, since the kernel has the bytes; a power loss may lose some.
        """
        journal = self.journal
        journal.start(
            asyncio.get_running_loop(), self._on_durable, lambda: image.take(self.state), on_failure
        )
        state = self.state
        is_certain = (
            journal.certain
            and state.identity is not None
            and journal.identity.proves_same(state.identity)
        )
        term = state.term if is_certain else Term(state.term + 1)
        at = self.clock.moment()
        # Open transactions may have lost writes that were acknowledged before they were durable.
        # They are aborted in the very frame that raises the term; if that would be too long, in
        # frames before it that do not yet claim to know the disk. One who finds only some of them
        # cannot be certain either, and aborts the rest.
        aborts = [] if is_certain else term_aborts(self, term, at)
        *first_parts, last_part = _parts(aborts)
        for part in first_parts:
            self._open(facts.Opened(term, UNPROVEN), part, at)
        end = self._open(facts.Opened(term, journal.identity), last_part, at)
        await self.durable(end)
        self.clock.look()
        at = self.clock.moment()
        state.groups.recovered(at)
        state.transactions.recovered(at.now_ms)

    def _open(
        self, opened: facts.Opened, aborts: Sequence[TransactionStep], at: Moment
    ) -> Position:
        size = FACT_SIZE_MAX + sum(abort.size for abort in aborts)
        draft = self.draft(size, urgent=True, at=at)
        if not self.state.cluster_id:
            draft.add_fact(facts.ClusterNamed(self.randomness.token_bytes(CLUSTER_ID_SIZE)))
        draft.add_fact(opened)
        for abort in aborts:
            abort.add_to(draft)
        return draft.append()

    # Deciding

    def draft(self, size: int, *, urgent: bool = False, at: Moment | None = None) -> Draft:
        """Begin a step that appends at most `size` bytes of batches and facts.

        Raises JournalFull, and then nothing has changed. What frees room or ends a transaction
        is urgent and may use the headroom that others must leave.
        """
        self.end_if_torn(None)
        self.journal.reserve(size + frame.HEAD_SIZE, urgent)
        return Draft(self, self.clock.moment() if at is None else at)

    def note_jump(self) -> None:
        """Write down where the wall clock is, if it was set ahead since the last frame.

        The next process would take that for a rest.
        """
        last = self.state.last_moment
        if last is not None and self.clock.has_jumped(last):
            self.draft(0, urgent=True).append_moment()

    def end_if_torn(self, error: Exception | None) -> None:
        """End the journal, and with it the broker, if a step was left before its frame was whole.

        The state then holds what the journal does not, and a frame built on it could not be
        replayed. The next process finds the journal as it was before that step.
        """
        if self.is_in_step:
            self.journal.fail(error or AssertionError("it was left in the middle"), "a step")

    def drop_from_index(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self.journal.index.drop(partition.number)

    # Waiting

    async def durable(self, position: Position) -> None:
        """Return when the journal survives power loss up to `position`."""
        if position <= self.journal.durable:
            return
        reached = asyncio.get_running_loop().create_future()

        def settle() -> None:
            if not reached.done():
                reached.set_result(None)

        self.journal.when_durable(position, settle)
        await reached

    def _on_durable(self, position: Position) -> None:
        """Move the readable end of every partition together, before any reply is released."""
        unsettled = self.unsettled
        grown: dict[Partition, None] = {}
        while unsettled and unsettled[0][0] <= position:
            _, partition, end = unsettled.popleft()
            partition.settle(end)
            if partition.watchers:
                grown[partition] = None
        for partition in grown:
            for tell in tuple(partition.watchers):
                tell()


def _parts(aborts: Iterable[TransactionStep]) -> list[list[TransactionStep]]:
    """At least one part, each as long as a frame should be at most."""
    parts: list[list[TransactionStep]] = [[]]
    size = 0
    for abort in aborts:
        if parts[-1] and size + abort.size > ABORTS_SIZE_MAX:
            parts.append([])
            size = 0
        parts[-1].append(abort)
        size += abort.size
    return parts

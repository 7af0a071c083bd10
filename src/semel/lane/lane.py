"""A lane: one journal, the state that its frames make, and the law that binds the two.

    Decide, append and apply in one step, without awaiting. Then wait until the journal is durable
    up to that point before anything leaves the lane: a reply, a readable record.

A decision made on state that is not yet durable is appended behind that state, so it survives
only if that state does. A crash loses a suffix of the journal and nothing else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from semel.errors import FrameTooLarge
from semel.groups.coordinator import Groups
from semel.groups.settings import GroupSettings
from semel.journal.frames import HEADER_SIZE as FRAME_HEADER_SIZE
from semel.journal.journal import Journal
from semel.lane import facts, frame, image
from semel.lane.claims import Claim, kept_size
from semel.lane.clock import LaneClock
from semel.lane.draft import Draft
from semel.lane.recovery import recover
from semel.lane.state import LaneState
from semel.lane.transaction_steps import ending_size, term_aborts
from semel.log.partition import Partition
from semel.transactions.commands import TransactionSettings
from semel.transactions.store import Transactions
from semel.types import Offset, Position, Term
from semel.world import Clock, Moment, Randomness

CLUSTER_ID_SIZE = 16


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
        self.state = LaneState(Groups(settings.groups, randomness), Transactions(ending_size))
        recover(self.state, journal)
        self.clock = LaneClock(clock, self.state.last_moment, self.state.wall_ahead_ms)

    async def start(
        self,
        on_failure: Callable[[BaseException], None],
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """Say in the journal who has opened it, and return when that is durable.

        The term rises unless it is certain that every acknowledged byte is still there: a killed
        process loses nothing, since the kernel has the bytes; a power loss may lose some. If it
        stays, the journal says all there is to say already, and a disk on which there is no byte
        left can be opened as often as one likes.
        """
        journal = self.journal
        journal.start(
            asyncio.get_running_loop(),
            self._on_durable,
            lambda: image.take(self.state),
            on_failure,
            on_warning,
        )
        identity = self.state.identity
        is_certain = (
            journal.certain and identity is not None and journal.identity.proves_same(identity)
        )
        if not is_certain:
            await self.durable(self._raise_term())
        self.clock.look()
        at = self.clock.moment()
        self.state.groups.recovered(at)
        self.state.transactions.recovered(at.now_ms)

    def _raise_term(self) -> Position:
        """Open transactions may have lost writes that were acknowledged before they were durable.
        They are aborted in the very frame that raises the term."""
        at = self.clock.moment()
        term = Term(self.state.term + 1)
        opening: list[facts.AnyFact] = [facts.Opened(term, self.journal.identity)]
        if not self.state.cluster_id:
            opening.append(facts.ClusterNamed(self.randomness.token_bytes(CLUSTER_ID_SIZE)))
        aborts = term_aborts(self, term, at)
        size = facts.size_in_frame(*opening) + sum(abort.size for abort in aborts)
        draft = self.draft(size, Claim.OWED, at=at)
        for fact in opening:
            draft.add_fact(fact)
        for abort in aborts:
            abort.add_to(draft)
        return draft.append()

    # Deciding

    def draft(
        self,
        size: int,
        claim: Claim = Claim.ORDINARY,
        *,
        owed_change: int = 0,
        at: Moment | None = None,
    ) -> Draft:
        """Begin a step that appends at most `size` bytes of batches and facts.

        `owed_change` is what it adds to the bytes that open transactions take to be ended. Raises
        JournalFull, and then nothing has changed.
        """
        self.end_if_torn(None)
        journal = self.journal
        size += frame.HEAD_SIZE
        if claim is Claim.ORDINARY and size > journal.settings.payload_bytes_max:
            raise FrameTooLarge(
                f"a frame of {size} bytes, more than the {journal.settings.payload_bytes_max} "
                f"that journal.segment.bytes={journal.settings.segment_bytes} allows"
            )
        owed_size = self.state.transactions.owed_size + owed_change
        journal.reserve(size, kept_size(claim, owed_size, journal.settings))
        return Draft(self, self.clock.moment() if at is None else at, size)

    def room(self, claim: Claim) -> int:
        """Bytes of batches and facts that a draft may surely have now."""
        journal = self.journal
        kept = kept_size(claim, self.state.transactions.owed_size, journal.settings)
        left = journal.segments.room(journal.end, kept)
        return max(0, left - FRAME_HEADER_SIZE - frame.HEAD_SIZE)

    def say(self, fact: facts.AnyFact, claim: Claim = Claim.ORDINARY) -> Position:
        """Append this fact in a frame of its own, and apply it. Raises as `draft` does."""
        draft = self.draft(facts.size_in_frame(fact), claim)
        draft.add_fact(fact)
        return draft.append()

    def note_jump(self) -> None:
        """Write down where the wall clock is, if it was set ahead since the last frame.

        The next process would take that for a rest, and forget who has waited for room on a full
        disk: clocks are not set so often that this could use up what ends need there.
        """
        if self.state.last_moment and self.clock.has_jumped(self.state.wall_ahead_ms):
            self.draft(0, Claim.ENDING).append_moment()

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

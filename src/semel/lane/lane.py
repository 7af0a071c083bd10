"""A lane: one journal, the state that its frames make, and the law that binds the two.

    Decide, append and apply in one step, without awaiting. Then wait until the journal is durable
    up to that point before anything leaves the lane: a reply, a readable record.

A decision made on state that is not yet durable is appended behind that state, so it survives
only if that state does. A crash loses a suffix of the journal and nothing else.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from semel.errors import FrameTooLarge, JournalFull
from semel.groups.coordinator import Groups
from semel.journal.seam import Journal
from semel.lane import frame as frames
from semel.lane import snapshot
from semel.lane.claims import Claim, kept_size
from semel.lane.clock import LaneClock
from semel.lane.commands import Command, Environment, LaneSettings, R
from semel.lane.duties import Duties
from semel.lane.frame import Frame
from semel.lane.opening import BeginTerm, index_frame, recover
from semel.lane.partition_log import PartitionLog
from semel.lane.state import LaneState
from semel.lane.transactions import ending_size
from semel.lane.view import LaneView, PartitionView
from semel.lane.waiting_room import WaitingRoom
from semel.log.partition import Partition
from semel.transactions.store import Transactions
from semel.types import Offset, Position
from semel.world import Clock, Randomness


class Mark:
    """A point of a lane's journal: what was decided before it counts once it is durable."""

    __slots__ = ("lane", "position")

    def __init__(self, lane: "Lane", position: Position) -> None:
        self.lane = lane
        self.position = position

    def when_durable(self, callback: Callable[[], None]) -> None:
        self.lane.journal.when_durable(self.position, callback)

    def when_written(self, callback: Callable[[], None]) -> None:
        self.lane.journal.when_written(self.position, callback)


class Lane:
    def __init__(
        self,
        journal: Journal,
        settings: LaneSettings,
        clock: Clock,
        randomness: Randomness,
        number: int = 0,
        lane_count: int = 1,
        deadlines_changed: asyncio.Event | None = None,
    ) -> None:
        self.number = number
        self.journal = journal
        self._limits = journal.limits
        self.environment = Environment(settings, randomness, journal.limits, lane_count)
        self._growing: deque[tuple[Position, Partition, Offset]] = deque()
        """Ends of partitions that become readable when the journal is durable up to a position."""
        self.state = LaneState(Groups(settings.groups), Transactions(ending_size), number)
        recover(self.state, journal)
        self.clock = LaneClock(clock, self.state.last_moment, self.state.wall_ahead_ms)
        self.view = LaneView(self.state, self.clock)
        self.log = PartitionLog(journal, self.state.partitions)
        self.waiting_room = WaitingRoom(self, deadlines_changed or asyncio.Event())
        self.duties = Duties(self, settings.expiry)

    async def start(
        self,
        on_failure: Callable[[BaseException], None],
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """Say in the journal who has opened it, and return when that is durable.

        The term rises unless the journal is certain that every acknowledged byte is still there.
        If it stays, the journal says all there is to say already, and a disk on which there is no
        byte left can be opened as often as one likes.
        """
        journal = self.journal
        journal.start(
            asyncio.get_running_loop(),
            self._on_durable,
            lambda: snapshot.take(self.state),
            on_failure,
            on_warning,
        )
        if journal.may_miss_acknowledged or self.state.term < 0:
            self.submit(BeginTerm())
            await self.until_durable()
        self.clock.look()
        at = self.clock.moment()
        self.state.groups.recovered(at)
        self.state.transactions.recovered(at.now_ms)

    # Deciding

    def submit(self, command: Command[R]) -> R:
        """Decide, append and apply in one step; what comes of it may leave when it is durable.

        Raises the command's refusal, or JournalFull; then nothing has changed.
        """
        decided = command.decide(self.state, self.clock.moment(), self.environment)
        frame = decided.frame
        if frame is not None and frame.entries:
            self.append(frame, decided.claim, decided.owed_change)
        elif decided.room_needed:
            self.make_room(decided.room_needed, decided.claim)
        if decided.volatile is not None:
            self.state.groups.adopt(decided.volatile)
        return decided.reply

    def append(self, frame: Frame, claim: Claim, owed_change: int = 0) -> None:
        """Fix the order, and apply."""
        try:
            self.make_room(frame.size, claim, owed_change)
        except JournalFull:
            self._found_no_room(frame)
            raise
        journal, state = self.journal, self.state
        last = state.last_moment
        assert last is None or last.now_ms <= frame.at.now_ms, "time goes back"
        try:
            effects = state.apply(frame)
            start = journal.append(frame.encode(), frame.size)
            self.clock.in_frame(frame.at)
            index_frame(journal, frame, start, effects)
            end = journal.end
            partitions = state.partitions
            for batch in frame.batches:
                partition = partitions.get(batch.number)
                if partition is not None:
                    self._growing.append((end, partition, partition.log_end_offset))
            for gone in effects.gone:
                for tell in tuple(gone.watchers):
                    tell()
        except Exception as error:
            # The state holds what the journal does not, and a frame built on it could not be
            # replayed. The next process finds the journal as it was before.
            journal.fail(error, "a step")
            raise

    def make_room(self, size: int, claim: Claim, owed_change: int = 0) -> None:
        """Raises JournalFull if a payload of `size` bytes cannot be appended now."""
        journal = self.journal
        limits = self._limits
        if claim is Claim.ORDINARY and size > limits.payload_bytes_max:
            raise FrameTooLarge(
                f"a frame of {size} bytes, more than the {limits.payload_bytes_max} "
                f"that {limits.setting} allows"
            )
        owed_size = self.state.transactions.owed_size + owed_change
        journal.reserve(size, kept_size(claim, owed_size, limits))

    def _found_no_room(self, frame: Frame) -> None:
        for batch in frame.batches:
            partition = self.state.partitions.get(batch.number)
            if partition is not None:
                partition.found_no_room(batch.header)

    def room(self, claim: Claim) -> int:
        """Bytes of batches and facts that a frame may surely have now."""
        journal = self.journal
        kept = kept_size(claim, self.state.transactions.owed_size, self._limits)
        return max(0, journal.room(kept) - frames.HEAD_SIZE)

    def note_jump(self) -> None:
        """Write down where the wall clock is, if it was set ahead since the last frame.

        The next process would take that for a rest, and forget who has waited for room on a full
        disk: clocks are not set so often that this could use up what ends need there.
        """
        if self.state.last_moment and self.clock.has_jumped(self.state.wall_ahead_ms):
            self.append(Frame(self.clock.moment()), Claim.ENDING)

    # Reading

    def watch(self, partition: PartitionView, tell: Callable[[], None]) -> None:
        """Let `tell` be called whenever more of it can be read, or it is gone."""
        self.state.partitions[partition.number].watchers[tell] = None

    def unwatch(self, partition: PartitionView, tell: Callable[[], None]) -> None:
        watched = self.state.partitions.get(partition.number)
        if watched is not None:
            watched.watchers.pop(tell, None)

    # Waiting

    @property
    def written(self) -> Position:
        return self.journal.written

    @property
    def durable(self) -> Position:
        return self.journal.durable

    def mark(self) -> Mark:
        """The present end: whoever waits for it waits for all that was decided by now."""
        return Mark(self, self.journal.end)

    async def until_durable(self) -> None:
        """Return when all that was decided by now survives a power loss."""
        reached = asyncio.get_running_loop().create_future()

        def release() -> None:
            if not reached.done():
                reached.set_result(None)

        self.mark().when_durable(release)
        await reached

    async def close(self) -> None:
        """Make all of it durable, and give the journal free."""
        await self.journal.close()

    def _on_durable(self, position: Position) -> None:
        """Move the readable end of every partition together, before any reply is released."""
        growing = self._growing
        grown: dict[Partition, None] = {}
        while growing and growing[0][0] <= position:
            _, partition, end = growing.popleft()
            partition.settle(end)
            if partition.watchers:
                grown[partition] = None
        for partition in grown:
            for tell in tuple(partition.watchers):
                tell()

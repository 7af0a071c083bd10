"""A lane: one journal, the state that its frames make, and the law that binds the two.

    Decide, append and apply in one step, without awaiting. Then wait until the journal is durable
    up to that point before anything leaves the lane: a reply, a readable record.

A decision made on state that is not yet durable is appended behind that state, so it survives
only if that state does. A crash loses a suffix of the journal and nothing else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

from semel.at_once import Awaited
from semel.errors import FrameTooLarge, JournalFull, NotCoordinator, NotLeaderOrFollower
from semel.journal.seam import Journal, SharedJournal
from semel.lane import copying, facts, snapshot
from semel.lane import frame as frames
from semel.lane.calls import Outcome
from semel.lane.clock import LaneClock
from semel.lane.commands import (
    ORDINARY,
    Claim,
    Command,
    Environment,
    LaneSettings,
    R,
    kept_size,
)
from semel.lane.compacting import Compacting
from semel.lane.duties import Duties
from semel.lane.following import FollowedLane
from semel.lane.frame import BatchEntry, Frame
from semel.lane.joined import outcomes_of
from semel.lane.leader import Leader
from semel.lane.opening import (
    BeginEpoch,
    BeginTerm,
    index_frame,
    new_state,
    rebuild,
    replay_on,
    show_all,
)
from semel.lane.partition_log import PartitionLog
from semel.lane.settling import NO_VOLUMES, Settling, Volumes
from semel.lane.state import NO_EFFECTS
from semel.lane.view import LaneView, PartitionView
from semel.lane.waiting_room import WaitingRoom
from semel.log.partition import Partition
from semel.transactions.key import TransactionKey
from semel.types import Offset, Position, TransactionalId
from semel.world import Clock, Randomness


class Mark:
    """A point of a lane's journal: what was decided before it counts once it is durable."""

    __slots__ = ("lane", "position")

    def __init__(self, lane: "Lane", position: Position) -> None:
        self.lane = lane
        self.position = position


def _nobody_listens(*_: object) -> None:
    pass


class Lane:
    """Whoever wants something changed submits a command; what may be read is in `view` and `log`.

    Its state, its journal and its clock are nobody else's.
    """

    def __init__(
        self,
        journal: Journal,
        settings: LaneSettings,
        clock: Clock,
        randomness: Randomness,
        number: int = 0,
        lane_count: int = 1,
        deadlines_changed: asyncio.Event | None = None,
        volumes: Volumes = NO_VOLUMES,
        followed: FollowedLane | None = None,
    ) -> None:
        """`followed` is as the journal was followed, up to what is left to be replayed."""
        self.number = number
        self.is_leading = True
        """False once it hands over or has stepped down. Law: nothing is decided behind that."""
        self.may_confirm = True
        """False once it has stepped down. Law: nothing that it has decided is said behind that."""
        self.has_left = asyncio.Event()
        """Set then."""
        self._journal = journal
        self._limits = journal.limits
        self._environment = Environment(settings, randomness, journal.limits, lane_count)
        self.are_log_starts_durable = True
        """Whether where its logs begin may be told already. Other ends move when they are durable,
        but records are no longer shown as soon as their deletion is decided."""
        self._log_starts_moved_at = Position(0)
        """Behind the last frame that has moved the start of a partition's log."""
        self._unread: deque[tuple[Position, int, int]] = deque()
        """When the journal is durable up to a position, a partition becomes readable up to an
        offset. Numbers alone: what batches are made of would take memory, and the processor's
        time to have it, for as long as the journal takes."""
        self.on_decided: Callable[[int, Outcome], None] = _nobody_listens
        """Called with the number of each lane that has to be told how a transaction has ended."""
        self.on_ended: Callable[[TransactionKey], None] = _nobody_listens
        """Called when a transaction of another lane's coordinator is over here."""
        self._awaited: dict[Awaited[None], None] = {}
        """What is awaited of the journal, and never comes once the lane has left."""
        self._ended_by_leaving: dict[asyncio.Timeout, None] = {}
        """In their order, as all that a simulated run depends on."""
        if followed is None:
            state = new_state(settings, number)
            rebuild(state, journal)
        else:
            state = followed.state
            state.catalogue.on_change = None
            state.groups.configure(settings.groups)
            replay_on(state, journal)
        show_all(state)
        self._state = state
        self._issued_at: dict[TransactionalId, Position] = {}
        """Behind the frames that have issued their epochs, the oldest first; some are durable."""
        state.transactions.issued = []
        self._clock = LaneClock(clock, state.last_moment, state.wall_ahead_ms)
        self.view = LaneView(state, self._clock)
        self.log = PartitionLog(journal, volumes.store, state.partitions)
        self.waiting_room = WaitingRoom(
            self, state, randomness, deadlines_changed or asyncio.Event()
        )
        self.duties = Duties(self, state, journal, self._clock, settings.expiry)
        self.settling = Settling(self, state, journal, volumes, randomness, settings.settling)
        self.compacting = Compacting(self, state, self.settling, settings.settling)

    def configure(self, settings: LaneSettings) -> None:
        """Decide by these from here on."""
        self._environment = self._environment._replace(settings=settings)
        self._state.groups.configure(settings.groups)
        self.duties.configure(settings.expiry)

    def spread_over(self, lane_count: int) -> None:
        """So many lanes there are from here on."""
        self._environment = self._environment._replace(lane_count=lane_count)

    async def start(
        self,
        on_failure: Callable[[BaseException], None],
        on_warning: Callable[[str], None] | None = None,
        leader: Leader | None = None,
    ) -> None:
        """Say in the journal who has opened it, and return when that is durable.

        The term rises unless the journal is certain that every acknowledged byte is still there.
        If it stays, the journal says all there is to say already, and a disk on which there is no
        byte left can be opened as often as one likes. Where others can take the journal, everyone
        who does says so: `leader` is who.
        """
        journal, state = self._journal, self._state

        def failed(error: BaseException) -> None:
            if self.may_confirm:
                on_failure(error)

        journal.start(
            asyncio.get_running_loop(),
            self._on_durable,
            lambda: snapshot.take(state),
            failed,
            on_warning,
        )
        await self.settling.start()
        is_first = state.term < 0
        if journal.may_miss_acknowledged or is_first:
            open_count = len(state.transactions.open())
            self.submit(BeginTerm(journal.epoch, leader))
            await self.until_durable()
            if on_warning is not None and not is_first:
                reason = (
                    "the machine, the disk or the version is another than when this was written, "
                    "or a write had failed"
                    if journal.epoch is None
                    else "who led before has not handed over"
                )
                on_warning(
                    f"{reason}: the leader epoch is {state.term} now, and "
                    f"{open_count} open transactions were aborted"
                )
        elif journal.epoch is not None and leader is not None:
            self.submit(BeginEpoch(journal.epoch, leader))
            await self.until_durable()
        self._clock.look()
        at = self._clock.moment()
        state.groups.start_sessions(at)
        state.transactions.start_timers(at.now_ms)

    async def copy_into(
        self, target: Journal, settings: LaneSettings, on_progress: Callable[[int], None]
    ) -> copying.Copied:
        """All there is into a new journal, while nothing is decided here; see `copying.copy`."""
        return await copying.copy(self._state, self.log, target, settings, on_progress)

    async def close(self) -> None:
        """Make all of it durable, and give the journal free."""
        await self._journal.close()

    async def step_down(self) -> None:
        """Another may lead: decide nothing more, and let nothing more out.

        What was not decided is refused, so that clients look for the new leader. What was appended
        may count there or not, so that nobody may be answered: whoever waits for it is to be cut
        off. The state is of no use any more; who leads again replays the journal.
        """
        self.leave()
        await self._journal.close()

    async def hand_over(self, successor: int) -> None:
        """Decide nothing more, and let this node lead: it will miss nothing, so that nothing is
        aborted. All that was decided is answered meanwhile. To `leave` is left to the caller."""
        journal = self._journal
        assert journal.epoch is not None, "a journal that nobody else can take"
        self._retire()
        await cast(SharedJournal, journal).hand_over(successor)

    def leave(self) -> None:
        """The first part of stepping down, which waits for nothing."""
        self._retire()
        if not self.may_confirm:
            return
        self.may_confirm = False
        self.has_left.set()
        self._journal.abandon()
        for awaited in tuple(self._awaited):
            awaited.fail(NotLeaderOrFollower(f"lane {self.number} is led elsewhere"))
        self._tell_readers()

    def _retire(self) -> None:
        if not self.is_leading:
            return
        self.is_leading = False
        self.waiting_room.dismiss(NotCoordinator("the group is led elsewhere now"))
        for work in self._ended_by_leaving:
            work.reschedule(asyncio.get_running_loop().time())

    def _tell_readers(self) -> None:
        for partition in self._state.partitions.values():
            for tell in tuple(partition.watchers):
                tell()

    def check_leads(self) -> None:
        """To be asked behind an await. Raises NotLeaderOrFollower."""
        if not self.is_leading:
            raise NotLeaderOrFollower(f"lane {self.number} is led elsewhere now")

    async def while_leading(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this, or as much of it as can be done before the lane steps down: what it waits for
        may never come then."""
        if not self.is_leading:
            work.close()
            return
        until_left = asyncio.timeout(None)
        self._ended_by_leaving[until_left] = None
        try:
            async with until_left:
                await work
        except (TimeoutError, NotLeaderOrFollower):
            if self.is_leading:
                raise
        finally:
            del self._ended_by_leaving[until_left]

    # Deciding

    def submit(self, command: Command[R]) -> R:
        """Decide, append and apply in one step; what comes of it may leave when it is durable.

        Raises the command's refusal, or JournalFull; then nothing has changed.
        """
        if not self.is_leading:
            self.check_leads()
        state = self._state
        decided = command.decide(state, self._clock.moment(), self._environment)
        frame = decided.frame
        if frame is not None and frame.entries:
            self._append(frame, decided.claim, decided.owed_change)
        elif decided.room_needed:
            self._make_room(decided.room_needed, decided.claim)
        if decided.volatile is not None:
            state.groups.adopt(decided.volatile)
        return decided.reply

    def _append(self, frame: Frame, claim: Claim, owed_change: int = 0) -> None:
        """Fix the order, and apply."""
        try:
            self._make_room(frame.size, claim, owed_change)
        except JournalFull:
            self._found_no_room(frame)
            raise
        journal, state = self._journal, self._state
        at, last = frame.at, state.last_moment
        assert at is last or last is None or last.now_ms <= at.now_ms, "time goes back"
        try:
            effects = state.apply(frame)
            start = journal.append(frame.encode(), frame.size)
            if at is not last:
                self._clock.in_frame(at)
            index_frame(journal, state, frame, start, effects)
            end = journal.end
            self._note_unread(frame.batches, end)
            if state.transactions.issued:
                self._note_issued(end)
            if effects is not NO_EFFECTS:
                if effects.moved_log_starts:
                    self._log_starts_moved_at = end
                    self.are_log_starts_durable = False
                for gone in effects.gone:
                    if gone.watchers:
                        for tell in tuple(gone.watchers):
                            tell()
                for shown in effects.shown:
                    for tell in tuple(shown.watchers):
                        tell()
        except Exception as error:
            # The state holds what the journal does not, and a frame built on it could not be
            # replayed. The next process finds the journal as it was before.
            journal.fail(error, "a step")
            raise

        if effects is not NO_EFFECTS and effects.outcomes:
            self._tell_of(effects.outcomes)

    def _note_unread(self, batches: list[BatchEntry], end: Position) -> None:
        for batch in batches:
            behind = batch.base_offset + batch.header.last_offset_delta + 1
            self._unread.append((end, batch.number, behind))

    def _tell_of(self, outcomes: tuple[facts.Ended | facts.Decided, ...]) -> None:
        for each in outcomes:
            if isinstance(each, facts.Ended):
                self.on_ended(each.key)
            else:
                for lane, outcome in outcomes_of(each):
                    self.on_decided(lane, outcome)

    def _make_room(self, size: int, claim: Claim, owed_change: int = 0) -> None:
        """Raises JournalFull if a payload of `size` bytes cannot be appended now."""
        limits = self._limits
        if claim is ORDINARY and size > limits.payload_bytes_max:
            raise FrameTooLarge(
                f"a frame of {size} bytes, more than the {limits.payload_bytes_max} "
                f"that {limits.setting} allows"
            )
        state = self._state
        owed_size = state.transactions.owed_size + state.joined.owed_size + owed_change
        self._journal.reserve(size, kept_size(claim, owed_size, limits))

    def _found_no_room(self, frame: Frame) -> None:
        for batch in frame.batches:
            partition = self._state.partitions.get(batch.number)
            if partition is not None:
                partition.found_no_room(batch.header)

    def room(self, claim: Claim) -> int:
        """Bytes of batches and facts that a frame may surely have now."""
        kept = kept_size(claim, self._state.owed_size, self._limits)
        return max(0, self._journal.room(kept) - frames.HEAD_SIZE)

    def note_jump(self) -> None:
        """Write down where the wall clock is, if it was set ahead since the last frame.

        The next process would take that for a rest, and forget who has waited for room on a full
        disk: clocks are not set so often that this could use up what ends need there.
        """
        if not self.is_leading:
            return
        if self._state.last_moment and self._clock.has_jumped(self._state.wall_ahead_ms):
            self.append_nothing()

    def append_nothing(self) -> None:
        """A frame that says only when it was made."""
        self._append(Frame(self._clock.moment()), Claim.ENDING)

    def roll(self) -> bool:
        """Let the journal seal what was appended, as soon as there is a checkpoint; whether it
        will."""
        owed_size = self._state.owed_size
        return self._journal.roll(kept_size(Claim.ORDINARY, owed_size, self._limits))

    # Waiting

    def watch(self, partition: PartitionView, tell: Callable[[], None]) -> None:
        """Let `tell` be called whenever more of it can be read, or it is gone."""
        self._state.partitions[partition.number].watchers[tell] = None

    def unwatch(self, partition: PartitionView, tell: Callable[[], None]) -> None:
        watched = self._state.partitions.get(partition.number)
        if watched is not None:
            watched.watchers.pop(tell, None)

    @property
    def end(self) -> Position:
        """Behind all that was decided by now."""
        return self._journal.end

    def mark(self) -> Mark:
        """The present end: whoever waits for it waits for all that was decided by now."""
        return Mark(self, self._journal.end)

    def when_all_durable(self, callback: Callable[[], None]) -> None:
        """Once all that was decided by now survives a power loss; at once if it does already."""
        journal = self._journal
        journal.when_durable(journal.end, callback)

    def when_all_written(self, callback: Callable[[], None]) -> None:
        """As `when_all_durable`, for a killed process."""
        journal = self._journal
        journal.when_written(journal.end, callback)

    def write(self) -> None:
        """Hand to the kernel what was decided by now, and let go who waited for that."""
        self._journal.write()

    def when_durable(self, position: Position, callback: Callable[[], None]) -> None:
        self._journal.when_durable(position, callback)

    @property
    def is_behind(self) -> bool:
        """So much waits to be durable that whoever brings more had better wait too."""
        journal, most = self._journal, self._limits.backlog_bytes
        return most is not None and journal.end - journal.durable > most

    def when_caught_up(self, callback: Callable[[], None]) -> None:
        """Once so much of what waits now is durable that it is not behind; never if the lane steps
        down before."""
        journal, most = self._journal, self._limits.backlog_bytes
        assert most is not None, "a lane that is never behind"
        journal.when_durable(Position(journal.end - most), callback)

    def is_epoch_durable(self, transactional_id: TransactionalId) -> bool:
        """Whether what has issued the present epoch of this id is durable.

        Until it is, nobody can have heard of it from this leader. Who uses it nevertheless has it
        from one that has led since and counts from where this one did: nothing may be acknowledged
        to it before it is durable here, as it never will be.
        """
        issued_at = self._issued_at.get(transactional_id)
        return issued_at is None or issued_at <= self._journal.durable

    def _note_issued(self, end: Position) -> None:
        issued, issued_at = self._state.transactions.issued, self._issued_at
        assert issued is not None
        for transactional_id in issued:
            issued_at.pop(transactional_id, None)
            issued_at[transactional_id] = end
        issued.clear()
        durable = self._journal.durable
        while next(iter(issued_at.values())) <= durable:
            del issued_at[next(iter(issued_at))]

    def when_written(self, position: Position, callback: Callable[[], None]) -> None:
        self._journal.when_written(position, callback)

    def when_certain(
        self, position: Position, since: Position | None, callback: Callable[[], None]
    ) -> None:
        """As `when_durable`, for what is said on a request that came when the end was `since`.

        Where others can take the journal, what is read or refused must be true when it is said,
        and no frame that was there before says so. One that was appended since does, as nobody
        else can have led when it became durable; without one there is a barrier (rule 18).
        """
        journal = self._journal
        if journal.epoch is None or (since is not None and position > since):
            journal.when_durable(position, callback)
        else:
            journal.barrier(callback)

    def when_all_certain(self, since: Position, callback: Callable[[], None]) -> None:
        """As `when_certain`, for all that was decided by now."""
        self.when_certain(self._journal.end, since, callback)

    def beat(self, passed: Callable[[], None]) -> None:
        """Let whoever follows hear that this lane is led; `passed` is called when it surely is.

        Raises JournalFull while the store is away.
        """
        self._journal.barrier(passed)
        if self._journal.end == self._journal.durable:
            self.append_nothing()

    async def until(self, wait: Callable[[Callable[[], None]], None]) -> None:
        """Return when `wait` calls what it is given. Raises NotLeaderOrFollower if the lane steps
        down before."""
        reached: Awaited[None] = Awaited()

        def release() -> None:
            reached.give(None)

        if not self.may_confirm:
            raise NotLeaderOrFollower(f"lane {self.number} is led elsewhere")
        wait(release)
        if reached.done():
            return
        self._awaited[reached] = None
        try:
            await reached
        finally:
            del self._awaited[reached]

    def look_who_leads(self) -> None:
        """Step down if another does, or if that cannot be found out in time."""
        self._journal.barrier(_passed)

    async def until_durable(self) -> None:
        """Return when all that was decided by now survives a power loss."""
        reached = asyncio.get_running_loop().create_future()

        def release() -> None:
            if not reached.done():
                reached.set_result(None)

        self.when_all_durable(release)
        await reached

    def _on_durable(self, position: Position) -> None:
        """Move the readable end of every partition together, before any reply is released."""
        unread = self._unread
        partitions = self._state.partitions
        if self._log_starts_moved_at <= position:
            self.are_log_starts_durable = True
        # A transaction's batch and its marker are often durable together.
        ends: dict[int, int] = {}
        while unread and unread[0][0] <= position:
            _, number, behind = unread.popleft()
            ends[number] = behind
        grown: list[Partition] = []
        for number, end in ends.items():
            partition = partitions.get(number)
            if partition is None:
                continue  # It was deleted meanwhile.
            partition.advance_high_watermark(Offset(end))
            if partition.watchers:
                grown.append(partition)
        for partition in grown:
            for tell in tuple(partition.watchers):
                tell()


def _passed() -> None:
    """A question that was answered at all has shown who leads; the answer itself is of no use."""

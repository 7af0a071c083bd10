"""What a lane does because time passes: sessions end, transactions, producers and ids expire."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from semel.errors import JournalFull
from semel.journal.seam import Journal
from semel.lane.clock import LaneClock
from semel.lane.commands import Claim, ExpirySettings
from semel.lane.producing import ForgetProducers
from semel.lane.state import LaneState
from semel.lane.transactions import Transact
from semel.transactions.commands import Abort, ExpireId
from semel.types import TransactionalId

if TYPE_CHECKING:
    from semel.lane.lane import Lane

CHECKPOINT_FRAMES: Final = 50_000
"""Frames behind the last checkpoint that start-up may have to replay, about."""

LOOKED_AT_MAX: Final = 2_000
"""Producers, and ids, that one look at the clock may judge, so that nobody waits long behind it. A
look comes once a second at least."""

TRANSACTIONS_ENDED_MAX: Final = 100
"""In one look; the others stay overdue."""

NEVER_MS: Final = -(2**62)
"""What found no room counts as last looked at then, and is due at once."""


class Duties:
    def __init__(
        self,
        lane: "Lane",
        state: LaneState,
        journal: Journal,
        clock: LaneClock,
        settings: ExpirySettings,
    ) -> None:
        self._lane = lane
        self._state = state
        self._journal = journal
        self._clock = clock
        self._settings = settings
        self._producers_checked_at_ms = clock.now_ms()
        self._ids_checked_at_ms = self._producers_checked_at_ms
        self._frames_at_checkpoint = journal.frames_appended
        self._silent: Iterator[ForgetProducers | None] | None = None
        """The rest of a search for silent producers, while one is under way."""
        self._idle: Iterator[TransactionalId | None] | None = None
        """As above, for transactional ids."""
        self.transactions_timed_out = 0

    def configure(self, settings: ExpirySettings) -> None:
        self._settings = settings

    def look(self) -> int:
        """The time now, as `LaneClock.look`."""
        return self._clock.look()

    def pause_ms(self) -> int | None:
        """How long until the next session, offset or transaction is due; None if none will be."""
        deadline_ms = self._next_deadline_ms()
        return None if deadline_ms is None else deadline_ms - self._clock.now_ms()

    def expect_look_in(self, pause_ms: int) -> None:
        """Nobody looks before, unless a step brings a deadline that is nearer."""
        self._lane.waiting_room.next_look_ms = self._clock.now_ms() + pause_ms

    def _next_deadline_ms(self) -> int | None:
        state = self._state
        deadlines = (state.groups.next_deadline_ms(), state.transactions.next_deadline_ms())
        return min((each for each in deadlines if each is not None), default=None)

    def due(self) -> Iterator[Callable[[int], None]]:
        """What is due at a certain time. Each may raise JournalFull, and is then due again."""
        yield self._end_sessions
        yield self._end_overdue_transactions
        yield self._expire_producers
        yield self._expire_transactional_ids

    def rounds(self) -> Iterator[Callable[[int], None]]:
        """What has to be done now and then."""
        yield self._note_jump
        yield self._look_for_room

    @property
    def is_short_of_room(self) -> bool:
        """What is kept no longer should go now, and not only when its time comes."""
        return self._journal.is_short_of_room

    @property
    def is_checkpoint_due(self) -> bool:
        """Many small frames take long to replay although they fill no segment."""
        return self._journal.frames_appended - self._frames_at_checkpoint >= CHECKPOINT_FRAMES

    async def take_checkpoint(self) -> None:
        self._frames_at_checkpoint = self._journal.frames_appended
        await self._journal.checkpoint_now()

    def _end_sessions(self, now_ms: int) -> None:
        deadline_ms = self._state.groups.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= now_ms:
            self._lane.waiting_room.expire(now_ms)

    def _end_overdue_transactions(self, now_ms: int) -> None:
        overdue = self._state.transactions.overdue(now_ms, TRANSACTIONS_ENDED_MAX)
        for transactional_id in overdue:
            decision = self._lane.submit(Transact(transactional_id, Abort()))
            if decision.values:
                self.transactions_timed_out += 1

    def _expire_producers(self, now_ms: int) -> None:
        settings = self._settings
        if self._silent is None:
            passed_ms = now_ms - self._producers_checked_at_ms
            if passed_ms < settings.producer_id_expiration_check_interval_ms:
                return
            self._producers_checked_at_ms = now_ms
            self._silent = self._silent_producers(now_ms - settings.producer_id_expiration_ms)
        silent, self._silent = self._silent, None
        for command in silent:
            if command is None:
                self._silent = silent
                return
            try:
                self._lane.submit(command)
            except JournalFull:
                self._producers_checked_at_ms = NEVER_MS
                raise

    def _silent_producers(self, before_ms: int) -> Iterator[ForgetProducers | None]:
        """Those of all partitions; None whenever enough were looked at for once."""
        left = LOOKED_AT_MAX
        for partition in self._state.hosting.made_by_number():
            producers = partition.producers
            # Their numbers alone: others may come and go meanwhile.
            producer_ids = iter(tuple(producers))
            while some := list(islice(producer_ids, max(1, left))):
                silent = tuple(
                    each
                    for each in some
                    if each in producers and producers[each].may_expire(before_ms)
                )
                left -= 1 + len(some)
                if silent:
                    yield ForgetProducers(partition.number, silent, before_ms)
                if left <= 0:
                    left = LOOKED_AT_MAX
                    yield None

    def _expire_transactional_ids(self, now_ms: int) -> None:
        settings = self._settings
        if self._idle is None:
            if now_ms - self._ids_checked_at_ms < settings.transactional_id_cleanup_interval_ms:
                return
            self._ids_checked_at_ms = now_ms
            before_ms = now_ms - settings.transactional_id_expiration_ms
            self._idle = self._state.transactions.idle_since(before_ms, LOOKED_AT_MAX)
        idle, self._idle = self._idle, None
        for transactional_id in idle:
            if transactional_id is None:
                self._idle = idle
                return
            try:
                self._lane.submit(Transact(transactional_id, ExpireId(), Claim.ENDING))
            except JournalFull:
                self._ids_checked_at_ms = NEVER_MS
                raise

    def _note_jump(self, now_ms: int) -> None:
        self._lane.note_jump()

    def _look_for_room(self, now_ms: int) -> None:
        """A disk that was full may have room again, and nobody may be writing."""
        self._journal.look_for_room()

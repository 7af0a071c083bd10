"""What happens because time passes: sessions end, producers, offsets and connections expire."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING

from semel.broker import log
from semel.errors import JournalFull
from semel.lane.changes import expire_producers
from semel.lane.claims import Claim
from semel.lane.clock import WATCHED_MS
from semel.lane.transaction_steps import take_transaction_step
from semel.transactions.commands import Abort, ExpireId

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.server import Server

ROUND_MS = WATCHED_MS // 2
"""The longest pause between two looks at the clock."""

CHECKPOINT_FRAMES = 50_000
"""Frames behind the last checkpoint that start-up may have to replay, about."""

IDS_EXPIRED_MAX = 1_000
"""Transactional ids that one round may forget, so that nobody waits long behind it."""


class Housekeeping:
    def __init__(self, broker: "Broker", server: "Server") -> None:
        self._broker = broker
        self._server = server
        self._producers_checked_at_ms = broker.lane.clock.now_ms()
        self._ids_checked_at_ms = self._producers_checked_at_ms
        self._frames_at_checkpoint = broker.lane.journal.frames_appended
        self._next_round_s = server.loop.time()
        self._waits_for_room = False

    async def run(self) -> None:
        is_done = True
        while True:
            if is_done:
                await self._pause()
            else:
                # What is due stays due, and must not be tried without a pause.
                await asyncio.sleep(ROUND_MS / 1000)
            is_done = await self._look()

    async def _look(self) -> bool:
        """Do what is due; False if some of it could not be done.

        Due is what was so before the sockets were read: whoever has spoken until then is heard
        before anyone is judged silent, also by a process that was stopped for a while.
        """
        now_ms = self._broker.lane.clock.look()
        await self._server.read_what_waits()
        return self._tidy(now_ms)

    async def _pause(self) -> None:
        room = self._broker.waiting_room
        pause_ms = self._pause_ms()
        room.next_look_ms = self._broker.lane.clock.now_ms() + pause_ms
        try:
            async with asyncio.timeout(pause_ms / 1000):
                await room.changed.wait()
        except TimeoutError:
            pass
        room.changed.clear()

    def _pause_ms(self) -> int:
        state = self._broker.lane.state
        now_ms = self._broker.lane.clock.now_ms()
        deadlines_ms = (state.groups.next_deadline_ms(), state.transactions.next_deadline_ms())
        pauses_ms = [
            deadline_ms - now_ms for deadline_ms in deadlines_ms if deadline_ms is not None
        ]
        round_ms = ceil((self._next_round_s - self._server.loop.time()) * 1000)
        return max(0, min((round_ms, *pauses_ms)))

    def _duties(self) -> Iterator[Callable[[int], None]]:
        """What has a time of its own, and once in a round what only has to be done some day."""
        yield self._end_sessions
        yield self._end_overdue_transactions
        yield self._expire_producers
        yield self._expire_transactional_ids
        now_s = self._server.loop.time()
        if now_s < self._next_round_s:
            return
        self._next_round_s = now_s + ROUND_MS / 1000
        yield self._note_jump
        yield self._look_for_room
        yield self._take_checkpoint
        yield self._close_idle_connections
        yield self._tell_of_closed_connections

    def _tidy(self, now_ms: int) -> bool:
        """Do what is due, each duty whatever became of the others; False if one was not done."""
        is_done = True
        full: JournalFull | None = None
        for duty in self._duties():
            try:
                duty(now_ms)
            except JournalFull as error:
                is_done = False
                full = error
            except Exception as error:  # noqa: BLE001 - the broker serves on whatever it is.
                is_done = False
                self._broker.complain("housekeeping failed", error)
        if full is not None and not self._waits_for_room:
            log.warning("housekeeping waits for room", reason=str(full))
        self._waits_for_room = full is not None
        return is_done

    def _end_sessions(self, now_ms: int) -> None:
        deadline_ms = self._broker.lane.state.groups.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= now_ms:
            self._broker.waiting_room.expire(now_ms)

    def _expire_producers(self, now_ms: int) -> None:
        config = self._broker.config
        interval_ms = config.producer_id_expiration_check_interval_ms
        if now_ms - self._producers_checked_at_ms >= interval_ms:
            self._producers_checked_at_ms = now_ms
            expire_producers(self._broker.lane, now_ms - config.producer_id_expiration_ms)

    def _end_overdue_transactions(self, now_ms: int) -> None:
        broker = self._broker
        for transactional_id in broker.lane.state.transactions.overdue(now_ms):
            decision, _ = take_transaction_step(broker.lane, transactional_id, Abort())
            if decision.values:
                broker.metrics.transactions_timed_out += 1

    def _expire_transactional_ids(self, now_ms: int) -> None:
        config = self._broker.config
        interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        if now_ms - self._ids_checked_at_ms < interval_ms:
            return
        lane = self._broker.lane
        idle = lane.state.transactions.idle_since(now_ms - config.transactional_id_expiration_ms)
        expired = list(islice(idle, IDS_EXPIRED_MAX))
        for transactional_id in expired:
            take_transaction_step(lane, transactional_id, ExpireId(), Claim.ENDING)
        if len(expired) < IDS_EXPIRED_MAX:
            self._ids_checked_at_ms = now_ms

    def _note_jump(self, now_ms: int) -> None:
        self._broker.lane.note_jump()

    def _look_for_room(self, now_ms: int) -> None:
        """A disk that was full may have room again, and nobody may be writing."""
        self._broker.lane.journal.segments.prepare()

    def _take_checkpoint(self, now_ms: int) -> None:
        """Many small frames take long to replay although they fill no segment."""
        journal = self._broker.lane.journal
        if journal.frames_appended - self._frames_at_checkpoint >= CHECKPOINT_FRAMES:
            self._frames_at_checkpoint = journal.frames_appended
            self._server.start_task(self._checkpoint())

    async def _checkpoint(self) -> None:
        try:
            await self._broker.lane.journal.checkpoint_now()
        except Exception as error:  # noqa: BLE001 - the next start only replays more.
            self._broker.complain("a checkpoint failed", error)

    def _close_idle_connections(self, now_ms: int) -> None:
        self._server.close_idle()

    def _tell_of_closed_connections(self, now_ms: int) -> None:
        self._server.tell_of_closings()

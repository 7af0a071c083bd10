"""What happens because time passes: sessions end, producers, offsets and connections expire."""

import asyncio
from typing import TYPE_CHECKING

from semel.broker import log
from semel.errors import JournalFull
from semel.lane.changes import expire_producers
from semel.lane.transaction_steps import take_transaction_step
from semel.transactions.commands import Expire, ExpireId

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.server import Server

ROUND_MS = 1_000
"""The longest pause between two looks at the clock."""

CHECKPOINT_FRAMES = 50_000
"""Frames behind the last checkpoint that start-up may have to replay, about."""


class Housekeeping:
    def __init__(self, broker: "Broker", server: "Server") -> None:
        self._broker = broker
        self._server = server
        self._producers_checked_at_ms = broker.lane.clock.now_ms()
        self._ids_checked_at_ms = self._producers_checked_at_ms
        self._frames_at_checkpoint = broker.lane.journal.frames_appended

    async def run(self) -> None:
        changed = self._broker.waiting_room.changed
        while True:
            try:
                async with asyncio.timeout(self._pause_ms() / 1000):
                    await changed.wait()
            except TimeoutError:
                pass
            changed.clear()
            try:
                self._tidy()
            except JournalFull as error:
                log.warning("housekeeping waits for room", reason=str(error))
                await asyncio.sleep(ROUND_MS / 1000)

    def _pause_ms(self) -> int:
        state = self._broker.lane.state
        now_ms = self._broker.lane.clock.now_ms()
        deadlines_ms = (state.groups.next_deadline_ms(), state.transactions.next_deadline_ms())
        pauses_ms = [
            deadline_ms - now_ms for deadline_ms in deadlines_ms if deadline_ms is not None
        ]
        return max(0, min((ROUND_MS, *pauses_ms)))

    def _tidy(self) -> None:
        broker = self._broker
        now_ms = broker.lane.clock.now_ms()
        deadline_ms = broker.lane.state.groups.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= now_ms:
            broker.waiting_room.expire()
        interval_ms = broker.config.producer_id_expiration_check_interval_ms
        if now_ms - self._producers_checked_at_ms >= interval_ms:
            self._producers_checked_at_ms = now_ms
            expire_producers(broker.lane, now_ms - broker.config.producer_id_expiration_ms)
        self._end_overdue_transactions(now_ms)
        self._expire_transactional_ids(now_ms)
        self._take_checkpoint()
        self._server.close_idle()

    def _take_checkpoint(self) -> None:
        """Many small frames take long to replay although they fill no segment."""
        journal = self._broker.lane.journal
        if journal.frames_appended - self._frames_at_checkpoint >= CHECKPOINT_FRAMES:
            self._frames_at_checkpoint = journal.frames_appended
            self._server.start_task(journal.checkpoint_now())

    def _end_overdue_transactions(self, now_ms: int) -> None:
        broker = self._broker
        for transactional_id in broker.lane.state.transactions.overdue(now_ms):
            decision, _ = take_transaction_step(
                broker.lane, transactional_id, Expire(), urgent=True
            )
            if decision.values:
                broker.metrics.transactions_timed_out += 1

    def _expire_transactional_ids(self, now_ms: int) -> None:
        config = self._broker.config
        interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        if now_ms - self._ids_checked_at_ms < interval_ms:
            return
        self._ids_checked_at_ms = now_ms
        lane = self._broker.lane
        idle = lane.state.transactions.idle_since(now_ms - config.transactional_id_expiration_ms)
        for transactional_id in list(idle):
            take_transaction_step(lane, transactional_id, ExpireId(), urgent=True)

"""What happens because time passes: sessions end, producers, offsets and connections expire."""

import asyncio
from typing import TYPE_CHECKING

from semel.broker import log
from semel.errors import JournalFull
from semel.lane.changes import expire_producers

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.server import Server

ROUND_MS = 1_000
"""The longest pause between two looks at the clock."""


class Housekeeping:
    def __init__(self, broker: "Broker", server: "Server") -> None:
        self._broker = broker
        self._server = server
        self._producers_checked_at_ms = broker.lane.clock.now_ms()

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
        deadline_ms = self._broker.lane.state.groups.next_deadline_ms()
        if deadline_ms is None:
            return ROUND_MS
        return min(ROUND_MS, max(0, deadline_ms - self._broker.lane.clock.now_ms()))

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
        self._server.close_idle()

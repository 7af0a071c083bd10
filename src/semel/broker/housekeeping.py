"""What happens because time passes: sessions end, producers, offsets and connections expire."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from semel.broker import log
from semel.broker.disk_watch import DiskWatch
from semel.broker.retention import Retention
from semel.errors import JournalFull
from semel.lane.clock import WATCHED_MS
from semel.lane.lane import Lane

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.broker.server import Server

ROUND_MS = WATCHED_MS // 2
"""The longest pause between two looks at the clock."""

SHORT_OF_ROOM_PAUSE_S = 5.0
"""Between two rounds of retention while the disk is short of room."""

UNTRUSTED_S = 300.0
"""From a start on, in which nobody is judged by a clock that may be wrong, unless
log.retention.check.interval.ms is less."""

Duty = Callable[[], None]


class Housekeeping:
    def __init__(self, broker: "Broker", server: "Server") -> None:
        self._broker = broker
        self._server = server
        self._next_round_s = server.loop.time()
        self._waits_for_room = False
        self._retention = Retention(broker)
        self._disk_watch = DiskWatch(broker, self._retention.measure, server.start_task)
        self._started_s = self._retention_ended_s = server.loop.time()
        self._was_short_of_room = False
        self._is_deleting = False

    def _look_at_room(self) -> float:
        """How long to wait between two rounds of retention, in seconds: not at all when the disk
        becomes short of room, and not long while it is."""
        pause_s = self._broker.config.log_retention_check_interval_ms / 1000
        was_short = self._was_short_of_room
        self._was_short_of_room = self._broker.is_short_of_room
        if not self._was_short_of_room:
            return pause_s
        return min(pause_s, SHORT_OF_ROOM_PAUSE_S if was_short else 0)

    async def run(self) -> None:
        self._server.start_task(self._retention.ask())
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
        looked = [(lane, lane.duties.look()) for lane in self._broker.lanes.led]
        await self._server.read_what_waits()
        # A lane may have left meanwhile.
        return self._tidy([(lane, now_ms) for lane, now_ms in looked if lane.is_leading])

    async def _pause(self) -> None:
        changed = self._broker.deadlines_changed
        pause_ms = self._pause_ms()
        for lane in self._broker.lanes.led:
            lane.duties.expect_look_in(pause_ms)
        try:
            async with asyncio.timeout(pause_ms / 1000):
                await changed.wait()
        except TimeoutError:
            pass
        changed.clear()

    def _pause_ms(self) -> int:
        pauses_ms = [ceil((self._next_round_s - self._server.loop.time()) * 1000)]
        for lane in self._broker.lanes.led:
            lane_pause_ms = lane.duties.pause_ms()
            if lane_pause_ms is not None:
                pauses_ms.append(lane_pause_ms)
        return max(0, min(pauses_ms))

    def _duties(self, looked: list[tuple[Lane, int]]) -> Iterator[Duty]:
        """What has a time of its own, and once in a round what only has to be done some day."""
        for lane, now_ms in looked:
            for duty in lane.duties.due():
                yield partial(duty, now_ms)
        now_s = self._server.loop.time()
        if now_s < self._next_round_s:
            return
        self._next_round_s = now_s + ROUND_MS / 1000
        for lane, now_ms in looked:
            for duty in lane.duties.rounds():
                yield partial(duty, now_ms)
            yield partial(self._take_checkpoint, lane)
        yield self._disk_watch.look
        yield self._delete_expired
        yield self._broker.topics.catch_up
        yield partial(self._broker.across.forget_ends, now_s)
        yield self._server.close_idle
        yield self._server.tell_of_closings

    def _tidy(self, looked: list[tuple[Lane, int]]) -> bool:
        """Do what is due, each duty whatever became of the others; False if one was not done."""
        is_done = True
        full: JournalFull | None = None
        for duty in self._duties(looked):
            try:
                duty()
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

    def _delete_expired(self) -> None:
        now_s = self._server.loop.time()
        if now_s < self._retention_ended_s + self._look_at_room():
            return
        if self._is_deleting:
            # Settling may take long. What topics keep no longer goes meanwhile.
            self._retention_ended_s = now_s
            if self._may_expire():
                self._server.start_task(self._delete_meanwhile())
        else:
            self._is_deleting = True
            self._server.start_task(self._retention_round())

    def _may_expire(self) -> bool:
        interval_s = self._broker.config.log_retention_check_interval_ms / 1000
        passed_s = self._server.loop.time() - self._started_s
        return passed_s >= min(interval_s, UNTRUSTED_S)

    async def _delete_meanwhile(self) -> None:
        try:
            await self._retention.delete_expired()
        except Exception as error:  # noqa: BLE001 - the next round tries again.
            self._broker.complain("old records could not be deleted", error)

    async def _retention_round(self) -> None:
        try:
            await self._retention.round(may_expire=self._may_expire())
        except Exception as error:  # noqa: BLE001 - the next round tries again.
            self._broker.complain("old records could not be deleted", error)
        finally:
            self._is_deleting = False
            self._retention_ended_s = self._server.loop.time()

    def _take_checkpoint(self, lane: Lane) -> None:
        if lane.is_leading and lane.duties.is_checkpoint_due:
            self._server.start_task(self._checkpoint(lane))

    async def _checkpoint(self, lane: Lane) -> None:
        try:
            await lane.duties.take_checkpoint()
        except Exception as error:  # noqa: BLE001 - the next start only replays more.
            self._broker.complain("a checkpoint failed", error)

"""Group commit: one write for all that was appended in a tick, one sync for all who wait.

`written` and `durable` only rise. A sync covers what was written when it began; the durable
state is moved by `on_durable` before anyone who waited for it is told.
"""

import asyncio
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from semel.durations import Durations
from semel.errors import JournalFailed
from semel.journal.file.device import Device
from semel.types import Buffer, Position


class SyncReason(StrEnum):
    OPEN = "open"
    WAITING = "waiting"
    INTERVAL = "interval"
    ROLL = "roll"
    CHECKPOINT = "checkpoint"
    CLOSE = "close"


WAITING: Final = SyncReason.WAITING

Waiter = tuple[int, Callable[[], None], SyncReason]
"""For which position, who is told then, and why it is synced. Plain, as each reply makes one."""


class SegmentWrite(NamedTuple):
    """Bytes on their way to one segment."""

    name: str
    offset: int
    parts: list[Buffer]
    end: Position


class GroupCommit:
    def __init__(
        self,
        device: Device,
        end: Position,
        flush_interval_ms: int,
        group: bool,
    ) -> None:
        self.written = end
        self.durable = end
        self.failure: JournalFailed | None = None
        self.write_count = 0
        self.sync_counts: Counter[SyncReason] = Counter()
        self.sync_durations = Durations()
        self._sync_began_s = 0.0
        self._device = device
        self._flush_interval_s = flush_interval_ms / 1000
        self._group = group
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_durable: Callable[[Position], None]
        self._on_failure: Callable[[JournalFailed], None]
        self._on_error: Callable[[], None]
        self._name = ""
        self._base = 0
        self._parts: list[Buffer] = []
        self._parts_start = end
        self._parts_end = end
        self._earlier_writes: deque[SegmentWrite] = deque()
        self._flush_planned = False
        self._flushing = False
        self._writing = False
        self._unsynced: list[str] = []
        self._folder_unsynced = False
        self._syncing = False
        self._interval: asyncio.TimerHandle | None = None
        self._written_waiters: deque[Waiter] = deque()
        self._durable_waiters: deque[Waiter] = deque()
        self._when_idle: list[Callable[[], None]] = []

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[Position], None],
        on_failure: Callable[[JournalFailed], None],
        on_error: Callable[[], None],
    ) -> None:
        """`on_error` hears of each error of the device, also of those behind the end."""
        self._loop = loop
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._on_error = on_error

    def roll_to(self, name: str, base: int, *, renamed: bool) -> None:
        """What is added from now on goes to this segment."""
        if self._parts:
            self._earlier_writes.append(self._take())
        self._name = name
        self._base = base
        self._folder_unsynced |= renamed

    def add(self, header: bytes, parts: list[Buffer], end: Position) -> None:
        self._parts.append(header)
        self._parts += parts
        self._parts_end = end
        if not self._flush_planned:
            self._flush_planned = True
            assert self._loop is not None
            self._loop.call_soon(self.flush)

    def when_written(self, position: int, callback: Callable[[], None]) -> None:
        if position <= self.written:
            callback()
        else:
            _queue(self._written_waiters, (position, callback, WAITING))

    def when_durable(
        self,
        position: int,
        callback: Callable[[], None],
        reason: SyncReason = WAITING,
    ) -> None:
        if position <= self.durable:
            callback()
            return
        _queue(self._durable_waiters, (position, callback, reason))
        if position <= self.written:
            # What is not written yet is considered when it is.
            self._consider_sync()

    def flush(self) -> None:
        """Writes all that was added; what is added meanwhile follows."""
        self._flush_planned = False
        self._flushing = True
        try:
            while not self._writing and self.failure is None:
                if self._earlier_writes:
                    self._write(self._earlier_writes.popleft())
                elif self._parts:
                    self._write(self._take())
                else:
                    break
        finally:
            self._flushing = False
        self._consider_sync()
        if self._written_waiters:
            self._tell(_reached(self._written_waiters, self.written))

    def fail(self, error: Exception, deed: str) -> None:
        """End the journal because of this error, as `end` does."""
        self._on_error()
        failure = JournalFailed(f"{deed} failed: {error}")
        failure.__cause__ = error
        self.end(failure)

    def end(self, failure: JournalFailed) -> None:
        """The journal is dead: no byte is written and no one is answered any more."""
        if self.failure is not None:
            return
        self.failure = failure
        self._cancel_interval()
        self._on_failure(failure)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Of a journal that has ended: at once, or when what the device was given has come back,
        however it went."""
        assert self.failure is not None
        if self._writing or self._syncing:
            self._when_idle.append(callback)
        else:
            callback()

    def _write(self, write: SegmentWrite) -> None:
        self._writing = True
        self.write_count += 1
        if not self._unsynced or self._unsynced[-1] != write.name:
            self._unsynced.append(write.name)
        self._device.submit_write(
            write.name, write.offset, write.parts, partial(self._on_written, write.end)
        )

    def _take(self) -> SegmentWrite:
        offset = self._parts_start - self._base
        write = SegmentWrite(self._name, offset, self._parts, self._parts_end)
        self._parts = []
        self._parts_start = self._parts_end
        return write

    def _on_written(self, end: Position, error: Exception | None) -> None:
        self._writing = False
        if error is not None:
            self.fail(error, f"writing the journal at {self.written}")
        if self.failure is not None:
            self._tell_if_idle()
            return
        self.written = end
        if not self._flushing:
            self.flush()

    def _consider_sync(self) -> None:
        if self._syncing or self.failure is not None or self.durable == self.written:
            return
        waiters = self._durable_waiters
        if waiters and waiters[0][0] <= self.written:
            self._sync(waiters[0][2])
        elif self._interval is None:
            assert self._loop is not None
            self._interval = self._loop.call_later(self._flush_interval_s, self._on_interval)

    def _on_interval(self) -> None:
        self._interval = None
        if not self._syncing and self.failure is None and self.durable < self.written:
            self._sync(SyncReason.INTERVAL)

    def _sync(self, reason: SyncReason) -> None:
        self._cancel_interval()
        target = self.written
        if not self._group and self._durable_waiters:
            target = Position(min(target, self._durable_waiters[0][0]))
        # The last one may be written to while it is synced; those before it are complete.
        names, self._unsynced = self._unsynced, self._unsynced[-1:]
        folder, self._folder_unsynced = self._folder_unsynced, False
        self._syncing = True
        self.sync_counts[reason] += 1
        assert self._loop is not None
        self._sync_began_s = self._loop.time()
        self._device.submit_sync(names, folder, partial(self._on_synced, target, names))

    def _on_synced(self, target: Position, names: list[str], error: Exception | None) -> None:
        self._syncing = False
        if error is not None:
            # Also if nobody waits for it any more: pages may be lost that were acknowledged.
            self.fail(error, f"syncing the journal from {self.durable} to {target}")
        if self.failure is not None:
            self._tell_if_idle()
            return
        assert self._loop is not None
        self.sync_durations.add(self._loop.time() - self._sync_began_s)
        for name in names[:-1]:
            self._device.retire(name)
        self.durable = target
        self._on_durable(target)
        reached = _reached(self._durable_waiters, target)
        self._consider_sync()
        self._tell(reached)

    def _tell(self, reached: list[Waiter]) -> None:
        """Last of all, since answering takes time in which the disk can work already."""
        for _, callback, _ in reached:
            if self.failure is None:
                callback()

    def _tell_if_idle(self) -> None:
        if not (self._writing or self._syncing):
            idle, self._when_idle = self._when_idle, []
            for callback in idle:
                callback()

    def _cancel_interval(self) -> None:
        if self._interval is not None:
            self._interval.cancel()
            self._interval = None


def _queue(waiters: deque[Waiter], waiter: Waiter) -> None:
    if not waiters or waiters[-1][0] <= waiter[0]:
        waiters.append(waiter)
    else:
        number = bisect_right(waiters, waiter[0], key=_position)
        waiters.insert(number, waiter)


def _position(waiter: Waiter) -> int:
    return waiter[0]


def _reached(waiters: deque[Waiter], position: int) -> list[Waiter]:
    """Takes out those who wait for no more than this."""
    reached: list[Waiter] = []
    while waiters and waiters[0][0] <= position:
        reached.append(waiters.popleft())
    return reached

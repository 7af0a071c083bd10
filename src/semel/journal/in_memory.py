"""The simplest journal: frames in a list, which outlives the journal but not the process.

For tests of what stands on a journal. It has room for all, writes what a tick has appended in the
next and syncs it in the one behind. `Shelf` is what a crash leaves.
"""

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from typing import Final

from semel.errors import JournalFailed
from semel.journal.frames import HEADER_SIZE
from semel.journal.index import BatchIndex
from semel.journal.index_files import read_index
from semel.journal.seam import JournalAbandoned, Limits, SealedStretches
from semel.types import Buffer, Position

PAYLOAD_BYTES_MAX: Final = 2**23


class Shelf:
    """What lasts: the frames that were written, and a checkpoint."""

    def __init__(self) -> None:
        self.frames: dict[int, bytes] = {}
        """Payloads by where they begin, rising."""
        self.end = 0
        self.durable = 0
        self.checkpoint: tuple[int, bytes, bytes] | None = None
        """Its position, the lane's state, and the index of batches up to there."""
        self.is_doubtful = False
        self.holder: MemoryJournal | None = None

    def kill(self) -> None:
        """The process ends; what was written stays."""
        if self.holder is not None:
            self.holder.vanish()
        self.holder = None

    def lose_power(self) -> None:
        """The machine ends; what was not durable is gone."""
        self.kill()
        self.frames = {at: payload for at, payload in self.frames.items() if at < self.durable}
        self.end = self.durable
        self.is_doubtful = True


class MemoryJournal:
    def __init__(self, shelf: Shelf) -> None:
        assert shelf.holder is None, "another has this journal"
        shelf.holder = self
        shelf.durable = shelf.end
        self.end = self.written = self.durable = Position(shelf.end)
        self.failure: JournalFailed | None = None
        self.index = BatchIndex(_no_file)
        self.limits = Limits(PAYLOAD_BYTES_MAX, "the memory driver")
        self.frames_appended = 0
        self.bytes_appended = 0
        self.may_miss_acknowledged = shelf.is_doubtful
        self.epoch: int | None = None
        self.checkpoint: bytes | None = None
        self._shelf = shelf
        self._checkpoint_position = 0
        if shelf.checkpoint is not None:
            self._checkpoint_position, self.checkpoint, opened = shelf.checkpoint
            self.index.restore([], read_index(opened, "memory"))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_durable: Callable[[Position], None]
        self._on_failure: Callable[[BaseException], None]
        self._snapshot: Callable[[], Iterator[bytes]]
        self._unwritten: list[tuple[int, bytes]] = []
        self._written_waiters: list[tuple[int, Callable[[], None]]] = []
        self._durable_waiters: list[tuple[int, Callable[[], None]]] = []
        self._is_gone = False
        self._ended = asyncio.Event()

    # Opening.

    def replay(self) -> Iterator[tuple[Position, memoryview]]:
        for position, payload in list(self._shelf.frames.items()):
            if position >= self._checkpoint_position:
                yield Position(position), memoryview(payload)

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[Position], None],
        snapshot: Callable[[], Iterator[bytes]],
        on_failure: Callable[[BaseException], None],
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self._loop = loop
        self._on_durable = on_durable
        self._snapshot = snapshot
        self._on_failure = on_failure
        self.checkpoint = None

    # Running.

    def reserve(self, size: int, kept_size: int) -> None:
        if self.failure is not None:
            raise self.failure

    def room(self, kept_size: int) -> int:
        return PAYLOAD_BYTES_MAX

    def append(self, parts: list[Buffer], size: int) -> Position:
        if self.failure is not None:
            raise self.failure
        position = Position(self.end + HEADER_SIZE)
        if not self._unwritten:
            self._soon(self._write)
        self._unwritten.append((position, b"".join(parts)))
        self.end = Position(position + size)
        self.frames_appended += 1
        self.bytes_appended += HEADER_SIZE + size
        return position

    def when_written(self, position: Position, callback: Callable[[], None]) -> None:
        _wait(self._written_waiters, position, self.written, callback)

    def write(self) -> None:
        """It is, in the sense of this journal."""

    def when_durable(self, position: Position, callback: Callable[[], None]) -> None:
        _wait(self._durable_waiters, position, self.durable, callback)

    def barrier(self, callback: Callable[[], None]) -> None:
        self.when_durable(self.end, callback)

    def _write(self) -> None:
        frames, self._unwritten = self._unwritten, []
        self._shelf.frames.update(frames)
        position, payload = frames[-1]
        self.written = Position(position + len(payload))
        self._shelf.end = self.written
        self._soon(self._sync)
        _release(self._written_waiters, self.written)

    def _sync(self) -> None:
        if self.durable < self.written:
            self.durable = self.written
            self._shelf.durable = self.durable
            self._shelf.is_doubtful = False
            self._on_durable(self.durable)
            _release(self._durable_waiters, self.durable)

    def _soon(self, action: Callable[[], None]) -> None:
        assert self._loop is not None

        def act() -> None:
            if self.failure is None and not self._is_gone:
                action()

        self._loop.call_soon(act)

    @property
    def held_from(self) -> Position:
        return Position(0)

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        return [self._read(position, size) for position, size in extents]

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        return [self._read(position, size) for position, size in extents]

    async def read(self, position: Position, size: int) -> Buffer:
        return self._read(position, size)

    async def read_index(self, name: str, offset: int, size: int) -> bytes:
        return _no_file(name, offset, size)

    def _read(self, position: int, size: int) -> memoryview:
        starts = list(self._shelf.frames)
        number = bisect_right(starts, position) - 1
        if number < 0:
            raise FileNotFoundError(f"byte {position} was given up")
        skip = position - starts[number]
        return memoryview(self._shelf.frames[starts[number]])[skip : skip + size]

    async def checkpoint_now(self) -> None:
        if self.failure is not None or self.end == self._checkpoint_position:
            return
        end, opened = self.end, _whole(self.index.encode_open(0, self.end))
        pieces = []
        for piece in self._snapshot():
            pieces.append(piece)
            await asyncio.sleep(0)
        await self._until_durable(end)
        if self.failure is None:
            self._checkpoint_position = end
            self._shelf.checkpoint = (end, b"".join(pieces), opened)

    @property
    def is_short_of_room(self) -> bool:
        return False

    def make_room(self) -> None:
        pass

    def look_for_room(self) -> None:
        pass

    async def _until_durable(self, position: Position) -> None:
        """Or until there is a failure."""
        if self.failure is None:
            self.when_durable(position, self._ended.set)
            await self._ended.wait()
        if self.failure is None:
            self._ended.clear()

    def roll(self, kept_size: int) -> bool:
        return False

    def sealed(self) -> SealedStretches:
        return SealedStretches(array("q"))

    def release_before(self, position: Position) -> bool:
        bound = min(position, self._checkpoint_position)
        frames = self._shelf.frames
        for start in [start for start in frames if start + len(frames[start]) <= bound]:
            del frames[start]
        return bound == position

    # Ending.

    def fail(self, error: Exception, deed: str) -> None:
        if self.failure is None:
            self._shelf.is_doubtful = True
            self._end(JournalFailed(f"{deed} failed: {error}"))

    def abandon(self) -> None:
        if self.failure is None:
            self._end(JournalAbandoned("the lane has stepped down"))

    def _end(self, failure: JournalFailed) -> None:
        self.failure = failure
        self._ended.set()
        self._on_failure(failure)

    def vanish(self) -> None:
        """As its process does when it is killed."""
        self._is_gone = True

    async def close(self) -> None:
        if self._loop is not None:
            await self._until_durable(self.end)
            await self.checkpoint_now()
        self._shelf.holder = None


def _no_file(name: str, offset: int, size: int) -> bytes:
    raise AssertionError(f"{name}: nothing is sealed here")


def _whole(steps: Generator[None, None, bytearray]) -> bytes:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bytes(end.value)


def _wait(
    waiters: list[tuple[int, Callable[[], None]]],
    position: int,
    reached: int,
    callback: Callable[[], None],
) -> None:
    if position <= reached:
        callback()
    else:
        number = bisect_right(waiters, position, key=lambda waiter: waiter[0])
        waiters.insert(number, (position, callback))


def _release(waiters: list[tuple[int, Callable[[], None]]], position: int) -> None:
    while waiters and waiters[0][0] <= position:
        waiters.pop(0)[1]()

"""Frames received where they will be read: a large reply is not copied on its way. Does no I/O."""

import sys
from collections import deque
from collections.abc import Iterator

from semel.errors import ProtocolError
from semel.types import Buffer
from semel.wire.framing import SIZE_PREFIX

_CHUNK_SIZE = 64 * 1024
_KEPT_SIZES = range(1024 * 1024, 32 * 1024 * 1024)
_KEPT_COUNT = 2
"""One is read while the next is received."""


class FrameReceiver:
    """Gives room for the next bytes, and is told how many have come.

    Small frames are cut from a chunk that many of them share. One that is not whole when its
    chunk ends gets memory of its own, and the rest of it is received there.
    """

    def __init__(self, frame_size_max: int) -> None:
        self._frame_size_max = frame_size_max
        self._chunk = bytearray(_CHUNK_SIZE)
        self._held = 0
        self._frame: memoryview | None = None
        self._filled = 0
        self._kept: deque[bytearray] = deque(maxlen=_KEPT_COUNT)

    def room(self) -> memoryview:
        if self._frame is not None:
            return self._frame[self._filled :]
        return memoryview(self._chunk)[self._held :]

    def advance(self, size: int) -> Iterator[Buffer]:
        """The frames that are whole now, without their sizes; iterate to the end."""
        if self._frame is not None:
            self._filled += size
            if self._filled == len(self._frame):
                frame, self._frame = self._frame, None
                yield frame
            return
        self._held += size
        position = 0
        while self._held - position >= SIZE_PREFIX.size:
            frame_size = self._size_at(position)
            begin = position + SIZE_PREFIX.size
            if frame_size > self._held - begin:
                self._begin_frame(frame_size, begin)
                return
            yield bytes(memoryview(self._chunk)[begin : begin + frame_size])
            position = begin + frame_size
        self._chunk[: self._held - position] = self._chunk[position : self._held]
        self._held -= position

    def _size_at(self, position: int) -> int:
        (size,) = SIZE_PREFIX.unpack_from(self._chunk, position)
        if not 0 <= size <= self._frame_size_max:
            raise ProtocolError(
                f"a frame of {size} bytes is announced; 0 to {self._frame_size_max} are taken"
            )
        return int(size)

    def _begin_frame(self, frame_size: int, begin: int) -> None:
        self._frame = self._memory(frame_size)
        self._filled = self._held - begin
        self._frame[: self._filled] = memoryview(self._chunk)[begin : self._held]
        self._held = 0

    def _memory(self, size: int) -> memoryview:
        if size not in _KEPT_SIZES:
            return memoryview(bytearray(size))
        for kept in self._kept:
            # Three: the one who keeps it, this loop, and the question itself.
            if len(kept) >= size and sys.getrefcount(kept) == 3:
                return memoryview(kept)[:size]
        # Fresh pages cost as much as receiving into them, so memory that no one reads any more
        # is taken again. Sizes are rounded up, as those of fetches differ a little.
        fresh = bytearray(-(-size // _KEPT_SIZES.start) * _KEPT_SIZES.start)
        self._kept.append(fresh)
        return memoryview(fresh)[:size]

"""Cuts requests from the bytes of one connection, holding no more than one unfinished request.

Bytes are received into a scratch buffer that all connections share; only what is left over of a
request is kept by the connection, and stands in front of what is received next. A long request
gets a buffer of its own that grows as bytes arrive, so that a size that lies costs its sender more
than it costs us.
"""

import struct
from typing import Final

from semel.errors import ProtocolError

_SIZE: Final = struct.Struct(">i")
SCRATCH_SIZE: Final = 256 * 2**10


LONG_SHARE: Final = 4
"""A request is long that takes more than this part of the scratch buffer: one that trickles in is
copied with each piece."""


class Inbox:
    __slots__ = ("_filled", "_is_long", "_partial", "_scratch", "_size_max")

    def __init__(self, scratch: memoryview, request_size_max: int) -> None:
        self._scratch = scratch
        self._size_max = request_size_max
        self._partial = bytearray()
        self._filled = 0
        self._is_long = False

    @property
    def held(self) -> int:
        """Bytes of memory that the unfinished request takes."""
        return len(self._partial)

    def buffer(self) -> memoryview:
        """Where the next bytes are to be received."""
        filled = self._filled
        if not filled:
            return self._scratch
        self._is_long = self._wanted() > len(self._scratch) // LONG_SHARE
        if not self._is_long:
            self._scratch[:filled] = self._partial
            return self._scratch[filled:]
        if filled == len(self._partial):
            self._grow()
        return memoryview(self._partial)[filled:]

    def received(self, count: int) -> list[memoryview]:
        """The requests that the `count` bytes just received complete, without their sizes."""
        self._filled += count
        if not self._is_long:
            received = self._scratch[: self._filled]
            self._partial, self._filled = bytearray(), 0
            return self._cut(received)
        if self._filled < self._wanted():
            return []
        whole = memoryview(self._partial)
        self._partial, self._filled, self._is_long = bytearray(), 0, False
        return [whole[_SIZE.size :]]

    def _cut(self, received: memoryview) -> list[memoryview]:
        requests: list[memoryview] = []
        start, end = 0, len(received)
        while end - start >= _SIZE.size:
            size = self._check(_SIZE.unpack_from(received, start)[0])
            after = start + _SIZE.size + size
            if after > end:
                break
            # The scratch buffer is used again at once; a request must outlive it.
            requests.append(memoryview(bytes(received[start + _SIZE.size : after])))
            start = after
        if start < end:
            self._partial = bytearray(received[start:])
            self._filled = end - start
        return requests

    def _grow(self) -> None:
        room = min(self._wanted() - self._filled, max(self._filled, SCRATCH_SIZE))
        # Not in place: an event loop may still hold the view it received into.
        self._partial = self._partial + bytes(room)

    def _wanted(self) -> int:
        """How many bytes, with the size itself, the unfinished request needs."""
        if self._filled < _SIZE.size:
            return _SIZE.size + 1  # Enough to learn the size; no request is shorter.
        return _SIZE.size + self._check(_SIZE.unpack_from(self._partial)[0])

    def _check(self, size: int) -> int:
        if not 0 < size <= self._size_max:
            raise ProtocolError(f"a request of {size} bytes; at most {self._size_max} are taken")
        return size

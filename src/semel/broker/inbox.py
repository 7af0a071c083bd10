"""Cuts requests from the bytes of one connection, holding no more than one unfinished request.

Bytes are received into a scratch buffer that all connections share; only what is left over of a
request is kept by the connection, and stands in front of what is received next. A long request is
kept in pieces that are added as bytes arrive, so that a size that lies costs its sender more than
it costs us.
"""

import struct
from typing import Final

from semel.errors import ProtocolError

_SIZE: Final = struct.Struct(">i")
_SIZE_SIZE: Final = _SIZE.size
_unpack_size: Final = _SIZE.unpack_from
SCRATCH_SIZE: Final = 256 * 2**10
LONG_SHARE: Final = 4
"""A request is long that takes more than this part of the scratch buffer: what is left of a short
one is copied with each piece that trickles in."""


_TLS: Final = b"\x16\x03"
"""How a handshake begins."""
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"PRI ")


class Inbox:
    __slots__ = ("_filled", "_missing", "_pieces", "_rest", "_scratch", "held", "size_max")

    def __init__(self, scratch: memoryview, request_size_max: int) -> None:
        self._scratch = scratch
        self.size_max = request_size_max
        self._rest = b""
        self._pieces: list[bytearray] = []
        """Of a long request; the last one is filled so far."""
        self._filled = 0
        self._missing = 0
        self.held = 0
        """Bytes of memory that the unfinished request takes."""

    def buffer(self) -> memoryview:
        """Where the next bytes are to be received."""
        if self._pieces:
            if self._filled == len(self._pieces[-1]):
                self._pieces.append(bytearray(min(self._missing, SCRATCH_SIZE)))
                self._filled = 0
                self.held += len(self._pieces[-1])
            return memoryview(self._pieces[-1])[self._filled :]
        size = len(self._rest)
        if not size:
            return self._scratch
        self._scratch[:size] = self._rest
        return self._scratch[size:]

    def received(self, count: int) -> list[bytes]:
        """The requests that the `count` bytes just received complete, without their sizes."""
        if not self._pieces:
            received = self._scratch[: len(self._rest) + count]
            self._rest, self.held = b"", 0
            return self._cut(received)
        self._filled += count
        self._missing -= count
        if self._missing:
            return []
        whole = b"".join(self._pieces)
        self._pieces, self.held = [], 0
        return [whole]

    def _cut(self, received: memoryview) -> list[bytes]:
        requests: list[bytes] = []
        start, end = 0, len(received)
        while end - start >= _SIZE_SIZE:
            (size,) = _unpack_size(received, start)
            if not 0 < size <= self.size_max:
                raise ProtocolError(_refusal(size, self.size_max))
            begin = start + _SIZE_SIZE
            after = begin + size
            if after > end:
                if after - start > len(self._scratch) // LONG_SHARE:
                    self._begin_long(received[begin:], after - end)
                    return requests
                break
            # The scratch buffer is used again at once; a request must outlive it.
            requests.append(received[begin:after].tobytes())
            start = after
        if start < end:
            self._rest = bytes(received[start:])
            self.held = end - start
        return requests

    def _begin_long(self, received: memoryview, missing: int) -> None:
        self._pieces.append(bytearray(received))
        self._filled = self.held = len(received)
        self._missing = missing


def _refusal(size: int, size_max: int) -> str:
    """Those who are at the wrong port are known by what they say first."""
    first = _SIZE.pack(size)
    if first.startswith(_TLS):
        return "the client speaks TLS, and this listener does not"
    if first in _HTTP:
        return (
            "the client speaks HTTP, and this listener Kafka's protocol: metrics have another port"
        )
    return f"a request of {size} bytes; at most {size_max} are taken"

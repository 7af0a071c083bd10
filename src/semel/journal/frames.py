"""The frame: a header that proves where it stands and what came before it, then the payload.

    magic 4 | checksum 4 | size 4 | previous 4 | position 8 | incarnation 4 | lag 4 | payload

The checksum covers everything behind itself. `previous` is the checksum of the frame before, so
that a frame left behind a hole never joins a later history. `lag` is how far the durable position
lagged behind this frame when it was made: bad bytes before that are damage, not a torn write.
"""

import struct
from typing import Final, NamedTuple

from semel.records.checksum import crc32c
from semel.types import Buffer

MAGIC = b"\xf5SML"
HEADER_SIZE: Final = 32
LAG_MAX: Final = 2**32 - 1

_HEADER: Final = struct.Struct("<4sIIIQII")
_pack_mark: Final = struct.Struct("<4sI").pack
_pack_checked: Final = struct.Struct("<IIQII").pack
_CHECKED_START: Final = 8

assert _HEADER.size == HEADER_SIZE


class FrameHeader(NamedTuple):
    magic: bytes
    checksum: int
    size: int
    previous: int
    position: int
    incarnation: int
    lag: int

    @property
    def durable(self) -> int:
        """The position known to be durable when the frame was made."""
        return self.position - self.lag

    @property
    def end(self) -> int:
        return self.position + HEADER_SIZE + self.size


def head(
    parts: list[Buffer], size: int, previous: int, position: int, incarnation: int, durable: int
) -> tuple[bytes, int]:
    """The header of a frame and its checksum."""
    lag = position - durable
    if lag > LAG_MAX:  # noqa: PLR1730 - a call less for each frame.
        lag = LAG_MAX
    checked = _pack_checked(size, previous, position, incarnation, lag)
    checksum: int = crc32c(checked)
    for part in parts:
        checksum = crc32c(part, checksum)
    return _pack_mark(MAGIC, checksum) + checked, checksum


unpack_header: Final = _HEADER.unpack_from
"""The fields of a `FrameHeader` as a plain tuple, where many are read."""


def header_at(buffer: Buffer, start: int) -> FrameHeader:
    return FrameHeader._make(unpack_header(buffer, start))


def checksum_of(frame: memoryview) -> int:
    """The checksum that the bytes of a whole frame should carry."""
    checksum: int = crc32c(frame[_CHECKED_START:])
    return checksum

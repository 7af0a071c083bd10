"""What Kafka's log cleaner leaves of a batch whose records are all gone."""

import struct

from semel.records.batch import HEADER_SIZE
from semel.records.checksum import crc32c

_LENGTH, _CHECKSUM, _CHECKED, _COUNT = 8, 17, 21, 57
"""Where these fields stand in a batch's header."""


def emptied(batch: bytes) -> bytes:
    """Its header alone: offsets, producer and flags stay, the number of records is 0."""
    header = bytearray(batch[:HEADER_SIZE])
    struct.pack_into(">i", header, _LENGTH, HEADER_SIZE - _LENGTH - 4)
    struct.pack_into(">i", header, _COUNT, 0)
    struct.pack_into(">I", header, _CHECKSUM, crc32c(bytes(header[_CHECKED:])))
    return bytes(header)

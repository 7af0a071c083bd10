"""The header of a record batch (format v2) as a value.

Not a tuple, whose fields take longer to read: each batch that is produced has a dozen of them read.
"""

import struct
from typing import Final

import msgspec

from semel.types import ProducerEpoch, ProducerId, Sequence

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""The fields in their order."""
unpack_header: Final = _HEADER.unpack_from
pack_header: Final = _HEADER.pack

COUNTED_FROM: Final = 12
"""The length field counts neither the base offset nor itself."""

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
"""The base timestamp is no record's: from then on compaction takes the batch's tombstones, or the
marker that it is (KIP-534)."""


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    checksum: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: Sequence
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + COUNTED_FROM

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> Sequence:
        """The sequence of the last record; sequences wrap from 2**31 - 1 to 0."""
        return Sequence((self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF)

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON else None

    def replaced(self, **fields: int) -> "BatchHeader":
        """With these fields instead of its own."""
        return msgspec.structs.replace(self, **fields)

    def pack(self) -> bytes:
        return pack_header(*msgspec.structs.astuple(self))

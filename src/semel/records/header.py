"""The header of a record batch (format v2) as a value.

Neither a tuple nor a struct, whose fields take longer to read where this is compiled: each batch
that is produced has a dozen of them read.
"""

import struct
from operator import attrgetter
from typing import Final

from semel.types import Buffer, ProducerEpoch, ProducerId, Sequence

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_unpack: Final = _HEADER.unpack_from
_pack: Final = _HEADER.pack

FIELDS: Final = (
    "base_offset",
    "length",
    "leader_epoch",
    "magic",
    "checksum",
    "attributes",
    "last_offset_delta",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)
"""In the order in which they stand in a batch."""
_fields_of: Final = attrgetter(*FIELDS)

COUNTED_FROM: Final = 12
"""The length field counts neither the base offset nor itself."""

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
"""The base timestamp is no record's: from then on compaction takes the batch's tombstones, or the
marker that it is (KIP-534)."""


class BatchHeader:
    """Changed by nobody once it is made."""

    __slots__ = FIELDS

    def __init__(
        self,
        base_offset: int,
        length: int,
        leader_epoch: int,
        magic: int,
        checksum: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp_ms: int,
        max_timestamp_ms: int,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        base_sequence: Sequence,
        record_count: int,
    ) -> None:
        self.base_offset: Final = base_offset
        self.length: Final = length
        self.leader_epoch: Final = leader_epoch
        self.magic: Final = magic
        self.checksum: Final = checksum
        self.attributes: Final = attributes
        self.last_offset_delta: Final = last_offset_delta
        self.base_timestamp_ms: Final = base_timestamp_ms
        self.max_timestamp_ms: Final = max_timestamp_ms
        self.producer_id: Final = producer_id
        self.producer_epoch: Final = producer_epoch
        self.base_sequence: Final = base_sequence
        self.record_count: Final = record_count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchHeader) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.named_fields().items())
        return f"BatchHeader({shown})"

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
        return BatchHeader(**{**self.named_fields(), **fields})  # type: ignore[arg-type]

    def fields(self) -> tuple[int, ...]:
        """In their order."""
        fields: tuple[int, ...] = _fields_of(self)
        return fields

    def named_fields(self) -> dict[str, int]:
        return dict(zip(FIELDS, self.fields(), strict=True))

    def pack(self) -> bytes:
        return _pack(*self.fields())


def unpack_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Whatever it says: nothing is checked."""
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        checksum,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = _unpack(buffer, position)
    return BatchHeader(
        base_offset,
        length,
        leader_epoch,
        magic,
        checksum,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )

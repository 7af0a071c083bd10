"""The header of a record batch (format v2): read and admit it, without opening its records.

The broker handles batches whole. The checksum covers everything behind itself, so the base
offset and the leader epoch, which only the broker knows, lie before it and can be stamped freely.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from semel.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, UnsupportedCompressionType
from semel.records.checksum import crc32c
from semel.types import NO_PRODUCER_ID, Buffer, ProducerEpoch, ProducerId, Sequence

# Base offset, length, leader epoch, magic, checksum, attributes, last offset delta,
# base and max timestamp, producer id, producer epoch, base sequence, record count.
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BEFORE: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
"""The header before and behind the point from which the checksum counts."""
_CHECKED_FIELD: Final = 5
_LENGTH: Final = struct.Struct(">i")
_unpack_header: Final = _HEADER.unpack_from

HEADER_SIZE: Final = 61
PREFIX_SIZE: Final = 16
"""The bytes in front of the magic byte: base offset, length and leader epoch, which are written
anew when a batch is stored. The others stay as produced."""

RECORD_SIZE_MIN: Final = 7
"""Bytes. A record without key, value and headers: one byte for each of its numbers."""

MAGIC: Final = 2
NO_TIMESTAMP_MS: Final = -1

_LENGTH_POSITION: Final = 8
_COUNTED_FROM: Final = 12  # The length field counts neither the base offset nor itself.
_RECORDS_FROM: Final = HEADER_SIZE - _COUNTED_FROM
_CHECKSUM_POSITION: Final = 17
_CHECKED_FROM: Final = 21

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
"""The base timestamp is no record's: from then on compaction takes the batch's tombstones, or the
marker that it is (KIP-534)."""
_COMPRESSION_MAX: Final = 4


class BatchHeader(NamedTuple):
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
        return self.length + _COUNTED_FROM

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

    def pack(self) -> bytes:
        return _HEADER.pack(*self)


def _header(fields: tuple[int, ...]) -> BatchHeader:
    """As `_make` does, which counts them again, for each batch that comes in."""
    return tuple.__new__(BatchHeader, fields)


def read(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, with its length and magic checked and nothing else."""
    available = len(buffer) - position
    if available < HEADER_SIZE:
        raise CorruptMessage(f"batch at byte {position}: header cut at {available} bytes")
    header = _header(_unpack_header(buffer, position))
    if header.magic != MAGIC:
        raise CorruptMessage(f"batch at byte {position}: magic {header.magic}, not {MAGIC}")
    if not HEADER_SIZE <= header.length + _COUNTED_FROM <= available:
        raise CorruptMessage(
            f"batch at byte {position}: length {header.length} in {available} bytes"
        )
    return header


def verify_checksum(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Raise unless the bytes of the batch at `position` are those its checksum was made of."""
    view = memoryview(buffer)[position + _CHECKED_FROM : position + header.size]
    checksum = crc32c(view)
    if checksum != header.checksum:
        raise CorruptMessage(
            f"batch at byte {position}: checksum {checksum:#010x}, not {header.checksum:#010x}"
        )


def split(buffer: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches that stand in `buffer` one behind the other; one cut off at the end is left out.

    A fetch may be cut at a size instead of between batches, so a cut is not an error.
    """
    view = memoryview(buffer)
    position = 0
    while len(view) - position >= HEADER_SIZE:
        (length,) = _LENGTH.unpack_from(view, position + _LENGTH_POSITION)
        size = length + _COUNTED_FROM
        if size >= HEADER_SIZE and len(view) - position < size:
            return
        header = read(view, position)
        yield header, view[position : position + size]
        position += size


def admit(records: memoryview) -> BatchHeader:
    """The header of the one batch a client may produce to a partition, or the refusal it gets.

    Every number that the broker will trust later is compared with the others here, since a
    stored batch that lies about its count or size would break every reader behind it.
    """
    size = len(records)
    if size < HEADER_SIZE:
        raise _cut_short(size)
    # Each field by its name here, since reading one of a tuple takes longer.
    fields = _unpack_header(records)
    (
        base_offset,
        length,
        _,
        magic,
        checksum,
        attributes,
        last_offset_delta,
        _,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = fields
    if magic != MAGIC:
        raise InvalidRecord(f"batch has magic {magic}, only {MAGIC} is accepted")
    if length + _COUNTED_FROM != size:
        raise _wrong_length(length, size)
    if crc32c(records[_CHECKED_FROM:]) != checksum:
        raise CorruptMessage(f"batch of {size} bytes does not have the checksum it carries")
    if record_count < 1 or last_offset_delta != record_count - 1:
        raise InvalidRecord(
            f"batch has {record_count} records but a last offset delta of {last_offset_delta}"
        )
    if (
        record_count * RECORD_SIZE_MIN > length - _RECORDS_FROM
        and not attributes & COMPRESSION_MASK
    ):
        raise InvalidRecord(f"batch has {record_count} records in {length - _RECORDS_FROM} bytes")
    if base_offset != 0:
        raise InvalidRecord(f"base offset of a produced batch is {base_offset}, not 0")
    if max_timestamp_ms < NO_TIMESTAMP_MS:
        raise InvalidTimestamp(f"largest timestamp of the batch is {max_timestamp_ms}")
    if producer_id >= 0:
        if producer_epoch < 0 or base_sequence < 0:
            raise InvalidRecord(
                f"producer {producer_id} sent epoch {producer_epoch} and sequence {base_sequence}"
            )
    elif producer_id != NO_PRODUCER_ID:
        raise InvalidRecord(f"producer id {producer_id} is negative")
    header = tuple.__new__(BatchHeader, fields)
    # Most batches have no flag, so that one comparison settles all of them.
    if not 0 <= attributes <= _COMPRESSION_MAX:
        _check_flags(header)
    return header


def _cut_short(size: int) -> CorruptMessage | InvalidRecord:
    if size == 0:
        return InvalidRecord("the request has no record batch")
    return CorruptMessage(f"batch of {size} bytes is shorter than its header")


def _wrong_length(length: int, size: int) -> CorruptMessage | InvalidRecord:
    if HEADER_SIZE <= length + _COUNTED_FROM <= size - HEADER_SIZE:
        return InvalidRecord("more than one batch was produced to a partition in one request")
    return CorruptMessage(f"batch of {size} bytes has a length field of {length}")


def _check_flags(header: BatchHeader) -> None:
    if header.compression > _COMPRESSION_MAX:
        raise UnsupportedCompressionType(f"compression type {header.compression} is unknown")
    if header.is_control:
        raise InvalidRecord("clients may not write control batches")
    if header.is_log_append_time:
        raise InvalidTimestamp("a producer may not mark its batch as stamped by the log")
    if header.is_transactional and header.producer_id < 0:
        raise InvalidRecord("a transactional batch has no producer id")


def with_log_append_time(batch: Buffer, now_ms: int) -> bytes:
    """The batch as a topic with `message.timestamp.type=LogAppendTime` stores it."""
    header = read(batch)
    rewritten = bytearray(batch[: header.size])
    _HEADER.pack_into(
        rewritten,
        0,
        *header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp_ms=now_ms),
    )
    seal(rewritten)
    return bytes(rewritten)


def with_producer(
    batch: Buffer,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    is_transactional: bool,
) -> bytes:
    """The batch as this producer sends it at this place of its sequence."""
    header = read(batch)
    attributes = header.attributes & ~TRANSACTIONAL | (TRANSACTIONAL if is_transactional else 0)
    return sealed(
        header._replace(
            attributes=attributes,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(producer_epoch),
            base_sequence=Sequence(base_sequence),
        ),
        memoryview(batch)[HEADER_SIZE : header.size],
    )


def sealed(header: BatchHeader, records: Buffer) -> bytes:
    """The batch of this header and these records, with the length and the checksum they ask for."""
    checked = _CHECKED.pack(*header[_CHECKED_FIELD:])
    checksum = crc32c(records, crc32c(checked))
    length = HEADER_SIZE - _COUNTED_FROM + len(records)
    before = _BEFORE.pack(header.base_offset, length, header.leader_epoch, header.magic, checksum)
    return b"".join((before, checked, records))


def seal(batch: bytearray) -> None:
    """Write the length and the checksum that the bytes of this one batch ask for."""
    _LENGTH.pack_into(batch, _LENGTH_POSITION, len(batch) - _COUNTED_FROM)
    checksum = crc32c(memoryview(batch)[_CHECKED_FROM:])
    struct.pack_into(">I", batch, _CHECKSUM_POSITION, checksum)


def fingerprint(header: BatchHeader, batch: Buffer) -> int:
    """What tells two batches with the same sequences apart.

    The checksum as produced; but a topic that stamps its own time changes that, so there it is
    a checksum of the records alone.
    """
    return fingerprint_of_records(batch) if header.is_log_append_time else header.checksum


def fingerprint_of_records(batch: Buffer) -> int:
    """Of a batch whose header the log changes, or has changed."""
    checksum: int = crc32c(memoryview(batch)[HEADER_SIZE:])
    return checksum


def read_header(buffer: Buffer) -> BatchHeader:
    """The header alone, of a batch that was checked when it was stored."""
    return _header(_HEADER.unpack_from(buffer))

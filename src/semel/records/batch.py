"""The header of a record batch (format v2): read and admit it, without opening its records.

The broker handles batches whole. The checksum covers everything behind itself, so the base
offset and the leader epoch, which only the broker knows, lie before it and can be stamped freely.
"""

import struct
from collections.abc import Iterator
from typing import Final

from semel.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, UnsupportedCompressionType
from semel.records.checksum import crc32c
from semel.records.header import COMPRESSION_MASK as COMPRESSION_MASK
from semel.records.header import CONTROL as CONTROL
from semel.records.header import COUNTED_FROM, unpack_header
from semel.records.header import DELETE_HORIZON as DELETE_HORIZON
from semel.records.header import LOG_APPEND_TIME as LOG_APPEND_TIME
from semel.records.header import TRANSACTIONAL as TRANSACTIONAL
from semel.records.header import BatchHeader as BatchHeader
from semel.types import NO_PRODUCER_ID, Buffer, ProducerEpoch, ProducerId, Sequence

_BEFORE: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
"""The header before and behind the point from which the checksum counts."""
_LENGTH: Final = struct.Struct(">i")

HEADER_SIZE: Final = 61
PREFIX_SIZE: Final = 16
"""The bytes in front of the magic byte: base offset, length and leader epoch, which are written
anew when a batch is stored. The others stay as produced."""

RECORD_SIZE_MIN: Final = 7
"""Bytes. A record without key, value and headers: one byte for each of its numbers."""

MAGIC: Final = 2
NO_TIMESTAMP_MS: Final = -1

_LENGTH_POSITION: Final = 8
_RECORDS_FROM: Final = HEADER_SIZE - COUNTED_FROM
_CHECKSUM_POSITION: Final = 17
_CHECKED_FROM: Final = 21

_COMPRESSION_MAX: Final = 4


def read(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, with its length and magic checked and nothing else."""
    available = len(buffer) - position
    if available < HEADER_SIZE:
        raise CorruptMessage(f"batch at byte {position}: header cut at {available} bytes")
    header = unpack_header(buffer, position)
    if header.magic != MAGIC:
        raise CorruptMessage(f"batch at byte {position}: magic {header.magic}, not {MAGIC}")
    if not HEADER_SIZE <= header.length + COUNTED_FROM <= available:
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
        size = length + COUNTED_FROM
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
    header = unpack_header(records)
    length, record_count = header.length, header.record_count
    attributes, producer_id = header.attributes, header.producer_id
    if header.magic != MAGIC:
        raise InvalidRecord(f"batch has magic {header.magic}, only {MAGIC} is accepted")
    if length + COUNTED_FROM != size:
        raise _wrong_length(length, size)
    if crc32c(records[_CHECKED_FROM:]) != header.checksum:
        raise CorruptMessage(f"batch of {size} bytes does not have the checksum it carries")
    if record_count < 1 or header.last_offset_delta != record_count - 1:
        raise InvalidRecord(
            f"batch has {record_count} records "
            f"but a last offset delta of {header.last_offset_delta}"
        )
    if (
        record_count * RECORD_SIZE_MIN > length - _RECORDS_FROM
        and not attributes & COMPRESSION_MASK
    ):
        raise InvalidRecord(f"batch has {record_count} records in {length - _RECORDS_FROM} bytes")
    if header.base_offset != 0:
        raise InvalidRecord(f"base offset of a produced batch is {header.base_offset}, not 0")
    if header.max_timestamp_ms < NO_TIMESTAMP_MS:
        raise InvalidTimestamp(
            f"largest timestamp of the batch is {header.max_timestamp_ms}: it counts milliseconds "
            "since 1970, and none before"
        )
    if producer_id >= 0:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise InvalidRecord(
                f"producer {producer_id} sent epoch {header.producer_epoch} "
                f"and sequence {header.base_sequence}"
            )
    elif producer_id != NO_PRODUCER_ID:
        raise InvalidRecord(f"producer id {producer_id} is negative")
    # Most batches have no flag, so that one comparison settles all of them.
    if not 0 <= attributes <= _COMPRESSION_MAX:
        _check_flags(attributes, producer_id)
    return header


def _cut_short(size: int) -> CorruptMessage | InvalidRecord:
    if size == 0:
        return InvalidRecord("the request has no record batch")
    return CorruptMessage(f"batch of {size} bytes is shorter than its header")


def _wrong_length(length: int, size: int) -> CorruptMessage | InvalidRecord:
    if HEADER_SIZE <= length + COUNTED_FROM <= size - HEADER_SIZE:
        return InvalidRecord("more than one batch was produced to a partition in one request")
    return CorruptMessage(f"batch of {size} bytes has a length field of {length}")


def _check_flags(attributes: int, producer_id: int) -> None:
    compression = attributes & COMPRESSION_MASK
    if compression > _COMPRESSION_MAX:
        raise UnsupportedCompressionType(f"compression type {compression} is unknown")
    if attributes & CONTROL:
        raise InvalidRecord("clients may not write control batches")
    if attributes & LOG_APPEND_TIME:
        raise InvalidTimestamp("a producer may not mark its batch as stamped by the log")
    if attributes & TRANSACTIONAL and producer_id < 0:
        raise InvalidRecord("a transactional batch has no producer id")


def with_log_append_time(batch: Buffer, now_ms: int) -> bytes:
    """The batch as a topic with `message.timestamp.type=LogAppendTime` stores it."""
    header = read(batch)
    stamped = header.replaced(
        attributes=header.attributes | LOG_APPEND_TIME, max_timestamp_ms=now_ms
    )
    rewritten = bytearray(stamped.pack())
    rewritten += batch[HEADER_SIZE : header.size]
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
        header.replaced(
            attributes=attributes,
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(producer_epoch),
            base_sequence=Sequence(base_sequence),
        ),
        memoryview(batch)[HEADER_SIZE : header.size],
    )


def sealed(header: BatchHeader, records: Buffer) -> bytes:
    """The batch of this header and these records, with the length and the checksum they ask for."""
    checked = _CHECKED.pack(
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    checksum = crc32c(records, crc32c(checked))
    length = HEADER_SIZE - COUNTED_FROM + len(records)
    before = _BEFORE.pack(header.base_offset, length, header.leader_epoch, header.magic, checksum)
    return b"".join((before, checked, records))


def seal(batch: bytearray) -> None:
    """Write the length and the checksum that the bytes of this one batch ask for."""
    _LENGTH.pack_into(batch, _LENGTH_POSITION, len(batch) - COUNTED_FROM)
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
    return unpack_header(buffer)

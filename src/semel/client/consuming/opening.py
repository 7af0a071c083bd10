"""The records of a batch as a consumer hands them out, read in one go.

Whatever is not as most batches are is left to the reader that checks each step and says what is
wrong; so this one need not, and is several times faster.
"""

from contextlib import suppress

from semel.client.consuming.record import Record, TimestampType
from semel.records.batch import HEADER_SIZE, BatchHeader, verify_checksum
from semel.records.compression import decompress
from semel.records.records import RecordHeader, decode_batch, read_headers
from semel.records.varint import read_varint
from semel.types import Buffer, TopicPartition

_NO_BYTES = 1
"""How a size of -1 is written."""


def open_batch(
    buffer: Buffer, position: int, header: BatchHeader, place: TopicPartition, start_offset: int
) -> list[Record]:
    """The records of the batch at `position` that are at `start_offset` or behind it."""
    verify_checksum(buffer, header, position)
    packed = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    records = None
    if 0 <= header.record_count <= header.last_offset_delta + 1:
        plain = bytes(decompress(header.compression, packed))
        with suppress(IndexError):
            records = _open_quickly(plain, header, place)
    if records is None:
        records = _open_carefully(buffer, position, header, place)
    if records and records[0].offset < start_offset:
        # A fetch into the middle of a batch gets the whole batch.
        return [record for record in records if record.offset >= start_offset]
    return records


def _timestamp_type(header: BatchHeader) -> TimestampType:
    return TimestampType.LOG_APPEND_TIME if header.is_log_append_time else TimestampType.CREATE_TIME


def _open_carefully(
    buffer: Buffer, position: int, header: BatchHeader, place: TopicPartition
) -> list[Record]:
    kind = _timestamp_type(header)
    return [
        Record(*place, each.offset, each.timestamp_ms, kind, each.key, each.value, each.headers)
        for each in decode_batch(buffer, position)
    ]


def _open_quickly(  # noqa: PLR0912 - a call per field costs more than the reading.
    plain: bytes, header: BatchHeader, place: TopicPartition
) -> list[Record] | None:
    """None if anything does not fit."""
    topic, partition = place
    kind = _timestamp_type(header)
    base_offset, base_ms, last_delta = (
        header.base_offset,
        header.base_timestamp_ms,
        header.last_offset_delta,
    )
    log_ms = header.max_timestamp_ms if header.is_log_append_time else None
    new = tuple.__new__
    records: list[Record] = []
    cursor = 0
    # A varint of one byte is read in place: most are, and a call costs more than the reading.
    for _ in range(header.record_count):
        size, cursor = read_varint(plain, cursor)
        end = cursor + size
        cursor += 1
        byte = plain[cursor]
        if byte < 0x80:
            delta_ms = (byte >> 1) ^ -(byte & 1)
            cursor += 1
        else:
            delta_ms, cursor = read_varint(plain, cursor)
        byte = plain[cursor]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            cursor += 1
        else:
            offset_delta, cursor = read_varint(plain, cursor)
        byte = plain[cursor]
        key: bytes | None = None
        if byte == _NO_BYTES:
            cursor += 1
        else:
            size, begin = read_varint(plain, cursor)
            cursor = begin + size
            if size < 0 or cursor > end:
                return None
            key = plain[begin:cursor]
        byte = plain[cursor]
        value: bytes | None = None
        if byte == _NO_BYTES:
            cursor += 1
        else:
            size, begin = read_varint(plain, cursor)
            cursor = begin + size
            if size < 0 or cursor > end:
                return None
            value = plain[begin:cursor]
        headers: tuple[RecordHeader, ...] = ()
        if plain[cursor]:
            count, cursor = read_varint(plain, cursor)
            headers, cursor = read_headers(plain, cursor, end, count)
        else:
            cursor += 1
        if cursor != end or not 0 <= offset_delta <= last_delta:
            return None
        time_ms = base_ms + delta_ms if log_ms is None else log_ms
        records.append(
            new(
                Record,
                (topic, partition, base_offset + offset_delta, time_ms, kind, key, value, headers),
            )
        )
    return records if cursor == len(plain) else None

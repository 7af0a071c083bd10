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


def _open_quickly(  # noqa: C901, PLR0912, PLR0915 - a call per field costs more than the reading.
    plain: bytes, header: BatchHeader, place: TopicPartition
) -> list[Record] | None:
    """None if anything does not fit.

    Varints of one or two bytes are read in place: nearly all are. The lowest bit of the first
    byte is the sign, and of sizes only -1 may have it. Sizes that are not negative only lead
    forward, so that a record whose parts end where it ends has none that is larger than that.
    """
    topic, partition = place
    kind = _timestamp_type(header)
    base_offset, last_offset = header.base_offset, header.last_offset
    base_ms, is_log_time = header.base_timestamp_ms, header.is_log_append_time
    timestamp_ms = header.max_timestamp_ms
    # The byte of the time before, if it had only one: neighbours often have the same time.
    timestamp_byte = -1
    new, record_type = tuple.__new__, Record
    no_headers: tuple[RecordHeader, ...] = ()
    records: list[Record] = []
    append = records.append
    cursor = 0
    for _ in range(header.record_count):
        byte = plain[cursor]
        if byte & 1:
            return None
        if byte < 0x80:
            end = cursor + 1 + (byte >> 1)
            cursor += 2
        elif (second := plain[cursor + 1]) < 0x80:
            end = cursor + 2 + ((byte & 0x7F | second << 7) >> 1)
            cursor += 3
        else:
            size, cursor = read_varint(plain, cursor)
            end = cursor + size
            cursor += 1
        byte = plain[cursor]
        if byte == timestamp_byte:
            cursor += 1
        else:
            delta_ms, cursor = read_varint(plain, cursor)
            timestamp_byte = byte if byte < 0x80 else -1
            if not is_log_time:
                timestamp_ms = base_ms + delta_ms
        byte = plain[cursor]
        if byte < 0x80:
            offset = base_offset + (byte >> 1)
            cursor += 1
        elif (second := plain[cursor + 1]) < 0x80:
            offset = base_offset + ((byte & 0x7F | second << 7) >> 1)
            cursor += 2
        else:
            offset_delta, cursor = read_varint(plain, cursor)
            offset = base_offset + offset_delta
        if byte & 1 or offset > last_offset:
            return None
        byte = plain[cursor]
        if byte == _NO_BYTES:
            key = None
            cursor += 1
        elif byte & 1:
            return None
        else:
            if byte < 0x80:
                begin = cursor + 1
                cursor = begin + (byte >> 1)
            elif (second := plain[cursor + 1]) < 0x80:
                begin = cursor + 2
                cursor = begin + ((byte & 0x7F | second << 7) >> 1)
            else:
                size, begin = read_varint(plain, cursor)
                cursor = begin + size
            key = plain[begin:cursor]
        byte = plain[cursor]
        if byte == _NO_BYTES:
            value = None
            cursor += 1
        elif byte & 1:
            return None
        else:
            if byte < 0x80:
                begin = cursor + 1
                cursor = begin + (byte >> 1)
            elif (second := plain[cursor + 1]) < 0x80:
                begin = cursor + 2
                cursor = begin + ((byte & 0x7F | second << 7) >> 1)
            else:
                size, begin = read_varint(plain, cursor)
                cursor = begin + size
            value = plain[begin:cursor]
        headers = no_headers
        if plain[cursor]:
            count, cursor = read_varint(plain, cursor)
            headers, cursor = read_headers(plain, cursor, end, count)
        else:
            cursor += 1
        if cursor != end:
            return None
        append(
            new(record_type, (topic, partition, offset, timestamp_ms, kind, key, value, headers))
        )
    return records if cursor == len(plain) else None

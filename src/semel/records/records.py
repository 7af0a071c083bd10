"""The records inside a batch: encode a batch from records, decode it into records.

Every length is compared with the bytes that are there before anything is read or allocated:
slices of Python truncate silently.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.errors import CorruptMessage
from semel.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP_MS,
    RECORD_SIZE_MIN,
    TRANSACTIONAL,
    BatchHeader,
    read,
    sealed,
    verify_checksum,
)
from semel.records.compression import OUTPUT_SIZE_MAX, Compression, compress, decompress
from semel.records.varint import append_varint, read_varint
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Buffer,
    ProducerEpoch,
    ProducerId,
)
from semel.types import Sequence as SequenceNumber

_NO_OFFSET: Final = -1

RecordHeader = tuple[str, bytes | None]


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = NO_TIMESTAMP_MS
    headers: tuple[RecordHeader, ...] = ()
    offset: int = _NO_OFFSET
    """Where it was read; a batch that is encoded numbers its records itself."""


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: int = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """One batch whose records stand at `base_offset` and the offsets behind it."""
    assert records, "a batch has at least one record"
    base_timestamp_ms = max_timestamp_ms = records[0].timestamp_ms
    plain = bytearray()
    for offset_delta, record in enumerate(records):
        timestamp_ms = record.timestamp_ms
        max_timestamp_ms = max(max_timestamp_ms, timestamp_ms)
        encoded = _encode_record(record, offset_delta, timestamp_ms - base_timestamp_ms)
        append_varint(plain, len(encoded))
        plain += encoded
    attributes = compression
    if is_transactional:
        attributes |= TRANSACTIONAL
    if is_control:
        attributes |= CONTROL
    record_count = len(records)
    header = BatchHeader(
        base_offset,
        0,  # The length and the checksum are not known yet.
        leader_epoch,
        MAGIC,
        0,
        attributes,
        record_count - 1,
        base_timestamp_ms,
        max_timestamp_ms,
        ProducerId(producer_id),
        ProducerEpoch(producer_epoch),
        SequenceNumber(base_sequence),
        record_count,
    )
    return sealed(header, compress(compression, plain))


def _encode_record(record: Record, offset_delta: int, timestamp_delta_ms: int) -> bytearray:
    key, value, _, headers, _ = record
    out = bytearray(1)  # Attributes of a record: none are defined.
    append_varint(out, timestamp_delta_ms)
    append_varint(out, offset_delta)
    _append_bytes(out, key)
    _append_bytes(out, value)
    append_varint(out, len(headers))
    for name, content in headers:
        _append_bytes(out, name.encode())
        _append_bytes(out, content)
    return out


def _append_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # The varint of -1.
    else:
        append_varint(out, len(value))
        out += value


def decode_batch(
    buffer: Buffer, position: int = 0, *, output_size_max: int = OUTPUT_SIZE_MAX
) -> list[Record]:
    """The records of the batch at `position`, with checksum, lengths and counts checked."""
    header, plain = unpack(buffer, position, output_size_max=output_size_max)
    records = []
    cursor = 0
    for _ in range(header.record_count):
        record, cursor = _decode_record(plain, cursor, header)
        records.append(record)
    if cursor != len(plain):
        raise CorruptMessage(
            f"batch at byte {position}: {len(plain) - cursor} bytes behind its last record"
        )
    return records


def unpack(
    buffer: Buffer, position: int = 0, *, output_size_max: int = OUTPUT_SIZE_MAX
) -> tuple[BatchHeader, bytes]:
    """The header of the batch at `position` and its records as bytes, with the checksum checked."""
    header = read(buffer, position)
    verify_checksum(buffer, header, position)
    packed = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    # `bytes` answers an index several times faster than a memoryview.
    # One that was emptied has nothing to unpack, whatever its flags say.
    plain = bytes(decompress(header.compression, packed, output_size_max)) if packed else b""
    if not 0 <= header.record_count * RECORD_SIZE_MIN <= len(plain):
        raise CorruptMessage(
            f"batch at byte {position}: {header.record_count} records in {len(plain)} bytes"
        )
    return header, plain


class RecordTimes:
    """The times of the records that `unpack` gave, for who wants no more of them, a few at a time.

    However large a record is, its time is read in a bounded time.
    """

    def __init__(self, header: BatchHeader, plain: bytes) -> None:
        self._header = header
        self._plain = plain
        self._cursor = 0
        self._count_left = header.record_count

    def few(self, count_max: int) -> list[tuple[int, int]]:
        """Timestamp and offset of the next records, at most this many; none at the end.

        Raises CorruptMessage.
        """
        count = min(count_max, self._count_left)
        found = []
        for _ in range(count):
            timestamp_ms, offset, _, self._cursor = _read_head(
                self._plain, self._cursor, self._header
            )
            found.append((timestamp_ms, offset))
        self._count_left -= count
        return found


def _decode_record(plain: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    timestamp_ms, offset, cursor, end = _read_head(plain, position, header)
    key, cursor = _read_bytes(plain, cursor, end)
    value, cursor = _read_bytes(plain, cursor, end)
    header_count, cursor = read_varint(plain, cursor)
    headers: tuple[RecordHeader, ...] = ()
    if header_count:
        headers, cursor = read_headers(plain, cursor, end, header_count)
    if cursor != end:
        raise CorruptMessage(f"record at byte {position}: ends at byte {cursor}, not {end}")
    return Record(key, value, timestamp_ms, headers, offset), end


def _read_head(plain: bytes, position: int, header: BatchHeader) -> tuple[int, int, int, int]:
    """Timestamp and offset of a record, where its key begins, and where it ends."""
    size, cursor = read_varint(plain, position)
    end = cursor + size
    if not cursor < end <= len(plain):
        raise CorruptMessage(f"record at byte {position}: size {size} of {len(plain) - cursor}")
    timestamp_delta_ms, cursor = read_varint(plain, cursor + 1)
    offset_delta, cursor = read_varint(plain, cursor)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise CorruptMessage(f"record at byte {position}: offset delta {offset_delta}")
    timestamp_ms = (
        header.max_timestamp_ms
        if header.attributes & LOG_APPEND_TIME
        else header.base_timestamp_ms + timestamp_delta_ms
    )
    return timestamp_ms, header.base_offset + offset_delta, cursor, end


def _read_bytes(plain: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, cursor = read_varint(plain, position)
    if size == -1:
        return None, cursor
    if not 0 <= size <= end - cursor:
        raise CorruptMessage(f"bytes at byte {position}: size {size} of {end - cursor}")
    return plain[cursor : cursor + size], cursor + size


def read_headers(
    plain: bytes, position: int, end: int, count: int
) -> tuple[tuple[RecordHeader, ...], int]:
    if not 0 <= count <= (end - position) // 2:
        raise CorruptMessage(f"headers at byte {position}: {count} in {end - position} bytes")
    headers = []
    cursor = position
    for _ in range(count):
        name_position = cursor
        name, cursor = _read_bytes(plain, cursor, end)
        if name is None:
            raise CorruptMessage(f"header at byte {name_position} has no name")
        value, cursor = _read_bytes(plain, cursor, end)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise CorruptMessage(f"header at byte {name_position}: name is not UTF-8") from None
    return tuple(headers), cursor

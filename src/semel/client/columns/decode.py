"""Fetched batches into Arrow: many batches become the columns of one RecordBatch."""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow as pa

from semel.client.columns.fields import gather, joined, read_fields
from semel.client.columns.headers import read_headers
from semel.client.columns.schema import COLUMNS, CREATE_TIME, LOG_APPEND_TIME, schema_of
from semel.client.columns.strided import StridedRecords, shape_of
from semel.client.columns.varints import Bytes, Numbers
from semel.client.columns.walk import find_runs, record_bounds
from semel.client.consuming.committed import visible_batches
from semel.errors import CorruptMessage, RecordListTooLarge
from semel.records.batch import HEADER_SIZE, BatchHeader, verify_checksum
from semel.records.compression import OUTPUT_SIZE_MAX, Compression, UnpacksTooLarge, decompress_into
from semel.types import Buffer, TopicPartition
from semel.wire.messages.fetch import AbortedTransaction

_ARROW_SIZE_MAX = 2**31 - 1
_GROWTH_FIRST = 4
_GROWTH = 2
_ROOM_SIZE_MIN = 64 * 1024

_RECORD_SIZE_MIN = 7  # Size, attributes, two deltas, no key, no value, no headers.
_OFFSET_MAX = 2**63 - 1
_US_IN_MS = 1000
# Arrow's microseconds end before Kafka's milliseconds: a time beyond them is the last there is.
_TIMESTAMP_MS_MAX = _OFFSET_MAX // _US_IN_MS


class Unpacked:
    """The records of many batches in one buffer, unpacked to where they stay."""

    def __init__(self, packed_size: int) -> None:
        room_size = max(packed_size * _GROWTH_FIRST, _ROOM_SIZE_MIN)
        # What is not written to is not touched either, and so takes no memory.
        self._room = np.empty(min(room_size, _ARROW_SIZE_MAX), np.uint8)
        self._size = 0
        self.spans: list[tuple[int, int]] = []
        """Where the records of each batch stand."""

    @property
    def content(self) -> memoryview:
        return self._room.data[: self._size]

    def add(self, compression: int, packed: memoryview) -> None:
        while True:
            room = self._room.data[self._size : self._size + OUTPUT_SIZE_MAX]
            size = decompress_into(compression, packed, room)
            if size is not None:
                break
            if len(room) == OUTPUT_SIZE_MAX:
                raise UnpacksTooLarge(f"{len(packed)} bytes unpack to more than {OUTPUT_SIZE_MAX}")
            self._grow()
        self.spans.append((self._size, self._size + size))
        self._size += size

    def _grow(self) -> None:
        if self._room.size == _ARROW_SIZE_MAX:
            raise RecordListTooLarge(
                f"a fetch unpacks to more than {_ARROW_SIZE_MAX} bytes: fetch less at a time"
            )
        larger = np.empty(min(self._room.size * _GROWTH, _ARROW_SIZE_MAX), np.uint8)
        larger[: self._size] = self._room[: self._size]
        self._room = larger


class WalkedRecords:
    """Records of any shape: found one by one, read all at once."""

    def __init__(
        self, plain: Buffer, buffer: Bytes, bounds: Sequence[tuple[Numbers, Numbers]]
    ) -> None:
        """`bounds` are begins and ends of the records of each batch."""
        self._plain = pa.py_buffer(plain)
        self._buffer = buffer
        # Batch by batch, so that what is read once for each field stays in the processor's cache.
        self._fields = joined([read_fields(buffer, *each) for each in bounds])
        self.count = self._fields.ends.size
        self.timestamp_deltas_ms = self._fields.timestamp_deltas_ms
        self.offset_deltas = self._fields.offset_deltas

    def keys(self) -> pa.Array:
        return gather(self._plain, [self._fields.keys])[0]

    def values(self) -> pa.Array:
        return gather(self._plain, [self._fields.values])[0]

    def headers(self) -> pa.Array:
        return read_headers(self._plain, self._buffer, self._fields)


class Records(Protocol):
    """The records of some batches, whichever way they were found."""

    count: int
    timestamp_deltas_ms: Numbers
    offset_deltas: Numbers

    def keys(self) -> pa.Array: ...

    def values(self) -> pa.Array: ...

    def headers(self) -> pa.Array: ...


def decode(
    batches: Buffer,
    partition: TopicPartition,
    *,
    start_offset: int = 0,
    end_offset: int = _OFFSET_MAX,
    aborted: Sequence[AbortedTransaction] = (),
    columns: Collection[str] = COLUMNS,
) -> pa.RecordBatch:
    """The records at `start_offset` and on, before `end_offset`, that a reader may see.

    `aborted` lists the aborted transactions that overlap the batches, as a read_committed fetch
    gives them; it is empty when everything may be read.
    """
    schema = schema_of(columns)
    wanted = [
        (position, header)
        for position, header in visible_batches(batches, aborted)
        if header.last_offset >= start_offset and header.base_offset < end_offset
    ]
    if not wanted:
        return pa.RecordBatch.from_pylist([], schema=schema)
    plain, bounds = _plain_records(batches, wanted)
    headers = [header for _, header in wanted]
    records = _records(plain, headers, bounds)
    offsets = _offsets(headers, records)
    arrays = _arrays(partition, headers, records, offsets, schema.names)
    decoded = pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
    if offsets[0] >= start_offset and offsets[-1] < end_offset:
        return decoded
    # A fetch into the middle of a batch gets the whole batch.
    return decoded.filter(pa.array((offsets >= start_offset) & (offsets < end_offset)))


def _plain_records(
    batches: Buffer, wanted: Sequence[tuple[int, BatchHeader]]
) -> tuple[Buffer, list[tuple[int, int]]]:
    """One buffer with the records of all batches, and where those of each batch stand in it."""
    for position, header in wanted:
        verify_checksum(batches, header, position)
    spans = [(position + HEADER_SIZE, position + header.size) for position, header in wanted]
    if all(header.compression == Compression.NONE for _, header in wanted):
        # Nothing is to be unpacked, so that the records may stay where they are.
        return batches, spans
    view = memoryview(batches)
    unpacked = Unpacked(sum(end - begin for begin, end in spans))
    for (_, header), (begin, end) in zip(wanted, spans, strict=True):
        unpacked.add(header.compression, view[begin:end])
    return unpacked.content, unpacked.spans


def _records(
    plain: Buffer, headers: Sequence[BatchHeader], bounds: list[tuple[int, int]]
) -> Records:
    """By stride if all batches allow it, or else record by record."""
    for header, (position, end) in zip(headers, bounds, strict=True):
        if not 0 < header.record_count * _RECORD_SIZE_MIN <= end - position:
            raise CorruptMessage(
                f"batch at offset {header.base_offset}: {header.record_count} records "
                f"in {end - position} bytes"
            )
    buffer = np.frombuffer(plain, np.uint8)
    places = [
        (position, end, header.record_count)
        for header, (position, end) in zip(headers, bounds, strict=True)
    ]
    return _strided(plain, buffer, places) or _walked(plain, buffer, places)


def _strided(
    plain: Buffer, buffer: Bytes, places: list[tuple[int, int, int]]
) -> StridedRecords | None:
    shapes = []
    for place in places:
        runs = find_runs(plain, buffer, *place)
        if runs is None:
            return None
        for run in runs:
            shape = shape_of(plain, buffer, run)
            if shape is None:
                return None
            shapes.append(shape)
    return StridedRecords(buffer, shapes)


def _walked(plain: Buffer, buffer: Bytes, places: list[tuple[int, int, int]]) -> WalkedRecords:
    return WalkedRecords(plain, buffer, [record_bounds(plain, buffer, *one) for one in places])


def _arrays(
    partition: TopicPartition,
    headers: Sequence[BatchHeader],
    records: Records,
    offsets: Numbers,
    names: Collection[str],
) -> dict[str, pa.Array]:
    makers: dict[str, Callable[[], pa.Array]] = {
        "key": records.keys,
        "value": records.values,
        "topic": lambda: _repeated(partition.topic, pa.string(), records.count),
        "partition": lambda: _repeated(partition.partition, pa.int32(), records.count),
        "offset": lambda: pa.array(offsets),
        "timestamp": lambda: _timestamps(headers, records),
        "timestampType": lambda: _timestamp_types(headers),
        "headers": records.headers,
    }
    return {name: makers[name]() for name in names}


def _offsets(headers: Sequence[BatchHeader], records: Records) -> Numbers:
    deltas = records.offset_deltas
    firsts = np.cumsum([0, *(header.record_count for header in headers[:-1])])
    last_deltas = [header.last_offset_delta for header in headers]
    if (np.minimum.reduceat(deltas, firsts) < 0).any() or (
        np.maximum.reduceat(deltas, firsts) > last_deltas
    ).any():
        raise CorruptMessage("a record of a fetch: its offset is not one of its batch's")
    offsets = _per_record([header.base_offset for header in headers], headers)
    offsets += deltas
    return offsets


def _timestamps(headers: Sequence[BatchHeader], records: Records) -> pa.Array:
    times = _per_record([header.base_timestamp_ms for header in headers], headers)
    times += records.timestamp_deltas_ms
    if any(header.is_log_append_time for header in headers):
        by_log = _per_record([header.is_log_append_time for header in headers], headers)
        stamps = _per_record([header.max_timestamp_ms for header in headers], headers)
        times = np.where(by_log != 0, stamps, times)
    times.clip(-_TIMESTAMP_MS_MAX, _TIMESTAMP_MS_MAX, out=times)
    times *= _US_IN_MS
    return pa.array(times).view(pa.timestamp("us", "UTC"))


def _timestamp_types(headers: Sequence[BatchHeader]) -> pa.Array:
    types = [LOG_APPEND_TIME if one.is_log_append_time else CREATE_TIME for one in headers]
    if len(set(types)) == 1:
        return _repeated(types[0], pa.int32(), sum(one.record_count for one in headers))
    return pa.array(_per_record(types, headers).astype(np.int32))


def _repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return _long_repeated(value, kind, 1 << (count - 1).bit_length()).slice(0, count)


@lru_cache(maxsize=16)
def _long_repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    """Kept, since one fetch of a partition has about as many records as the next."""
    return pa.repeat(pa.scalar(value, kind), count)


def _per_record(numbers: Sequence[int], headers: Sequence[BatchHeader]) -> Numbers:
    """A number of each batch, repeated for each of its records."""
    counts = [header.record_count for header in headers]
    return np.repeat(np.array(numbers, np.int64), counts)

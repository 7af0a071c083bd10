"""Arrow columns into record batches, each for one partition, ready to be stamped and sent."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.columns.headers import as_binary, as_numbers, header_bytes, sizes_of
from semel.client.columns.uniform import encode_uniform
from semel.client.columns.varints import Numbers, varint_column, varint_sizes
from semel.errors import MessageTooLarge
from semel.records.batch import HEADER_SIZE, MAGIC, NO_TIMESTAMP_MS, BatchHeader, sealed
from semel.records.compression import Compression, compress
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

BATCH_SIZE_MAX = 900_000
"""Below what brokers take by default, with room for what does not compress."""

# Upper bound of what a record adds to its contents: seven varints and a byte.
_RECORD_OVERHEAD_SIZE = 40
# Arrow's offsets are of 31 bits, and what is encoded at once should stay in a processor's cache.
_CHUNK_SIZE_MAX = 4 * 1024 * 1024
_VALUE_SIZE_MAX = 2**30


class RecordRows(NamedTuple):
    """What is to be encoded; the columns have the same length."""

    keys: pa.Array
    """Binary, like the values; null for a record without key."""
    values: pa.Array
    timestamps_ms: Numbers
    headers: pa.Array | None = None
    """A list of structs of key and value, or None if no record has any."""

    def take(self, places: Numbers) -> "RecordRows":
        chosen = pa.array(places)
        return RecordRows(
            self.keys.take(chosen),
            self.values.take(chosen),
            self.timestamps_ms[places],
            None if self.headers is None else self.headers.take(chosen),
        )

    def slice(self, begin: int, end: int) -> "RecordRows":
        return RecordRows(
            self.keys.slice(begin, end - begin),
            self.values.slice(begin, end - begin),
            self.timestamps_ms[begin:end],
            None if self.headers is None else self.headers.slice(begin, end - begin),
        )


def rows_from(
    keys: pa.Array | None,
    values: pa.Array,
    timestamps: pa.Array | None = None,
    headers: pa.Array | None = None,
    *,
    now_ms: int = NO_TIMESTAMP_MS,
) -> RecordRows:
    """Rows of columns as users have them: text or bytes, any unit of time, gaps in the times."""
    count = len(values)
    if timestamps is None:
        timestamps_ms = np.full(count, now_ms, np.int64)
    else:
        if pa.types.is_timestamp(timestamps.type):
            timestamps = timestamps.cast(pa.timestamp("ms", timestamps.type.tz), safe=False).view(
                pa.int64()
            )
        timestamps_ms = as_numbers(timestamps.cast(pa.int64()), now_ms)
    return RecordRows(
        pa.nulls(count, pa.binary()) if keys is None else as_binary(keys),
        as_binary(values),
        timestamps_ms,
        headers,
    )


class EncodedBatch(NamedTuple):
    """A batch without producer: `stamped` gives it one, without encoding it again."""

    partition: int
    record_count: int
    content: bytes


def encode(
    rows: RecordRows,
    partitions: npt.NDArray[np.int32],
    *,
    compression: Compression = Compression.NONE,
    batch_size_max: int = BATCH_SIZE_MAX,
) -> Iterator[EncodedBatch]:
    """The batches of each partition in turn; within a partition the rows keep their order."""
    if not partitions.size:
        return
    if (partitions != partitions[0]).any():
        order = np.argsort(_short(partitions), kind="stable")
        rows, partitions = rows.take(order), partitions[order]
    sizes = _size_bounds(rows)
    if sizes.max() > _VALUE_SIZE_MAX:
        raise MessageTooLarge(f"a record has {int(sizes.max())} bytes")
    starts = _batch_starts(sizes, partitions, batch_size_max - HEADER_SIZE)
    for first, last in _chunks(starts, sizes):
        chunk_starts = starts[first : last + 1]
        begin, end = int(chunk_starts[0]), int(chunk_starts[-1])
        yield from _encode_chunk(
            rows.slice(begin, end), partitions[begin:end], chunk_starts - begin, compression
        )


def _short(partitions: npt.NDArray[np.int32]) -> npt.NDArray[np.integer[Any]]:
    """Numbers of 16 bits, if they are no larger, are sorted in a fraction of the time."""
    return partitions.astype(np.int16) if partitions.max() < 2**15 else partitions


def _size_bounds(rows: RecordRows) -> Numbers:
    """No less than each record takes in a batch without compression."""
    sizes = np.maximum(sizes_of(rows.keys), 0) + np.maximum(sizes_of(rows.values), 0)
    sizes += _RECORD_OVERHEAD_SIZE
    if rows.headers is not None:
        encoded, _ = header_bytes(rows.headers)
        sizes += sizes_of(encoded)
    return sizes


def _batch_starts(sizes: Numbers, partitions: npt.NDArray[np.int32], room: int) -> Numbers:
    """Where batches begin, and the end of the last one."""
    changes = np.flatnonzero(np.diff(partitions)) + 1
    ends = [*changes.tolist(), sizes.size]
    totals = np.cumsum(sizes)
    starts = [0]
    for end in ends:
        while starts[-1] < end:
            begin = starts[-1]
            before = int(totals[begin - 1]) if begin else 0
            fitting = int(np.searchsorted(totals, before + room, side="right"))
            starts.append(min(max(fitting, begin + 1), end))
    return np.array(starts, np.int64)


def _chunks(starts: Numbers, sizes: Numbers) -> Iterator[tuple[int, int]]:
    """Neighbouring batches that are encoded at once, as first and last index into `starts`."""
    totals = np.concatenate([[0], np.cumsum(sizes)])[starts]
    first = 0
    while first < starts.size - 1:
        fitting = int(np.searchsorted(totals, totals[first] + _CHUNK_SIZE_MAX, side="right")) - 1
        last = max(fitting, first + 1)
        yield first, last
        first = last


def _encode_chunk(
    rows: RecordRows,
    partitions: npt.NDArray[np.int32],
    starts: Numbers,
    compression: Compression,
) -> Iterator[EncodedBatch]:
    counts = np.diff(starts)
    offset_deltas = np.arange(partitions.size) - np.repeat(starts[:-1], counts)
    base_timestamps_ms = rows.timestamps_ms[starts[:-1]]
    deltas_ms = rows.timestamps_ms - np.repeat(base_timestamps_ms, counts)
    max_timestamps_ms = np.maximum.reduceat(rows.timestamps_ms, starts[:-1])
    records, ends = _encode_records(rows, offset_deltas, deltas_ms)
    for number, count in enumerate(counts.tolist()):
        begin, end = int(ends[starts[number]]), int(ends[starts[number + 1]])
        header = BatchHeader(
            base_offset=0,
            length=0,
            leader_epoch=-1,
            magic=MAGIC,
            checksum=0,
            attributes=compression,
            last_offset_delta=count - 1,
            base_timestamp_ms=int(base_timestamps_ms[number]),
            max_timestamp_ms=int(max_timestamps_ms[number]),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=count,
        )
        content = sealed(header, compress(compression, records[begin:end]))
        yield EncodedBatch(int(partitions[starts[number]]), count, content)


def _encode_records(
    rows: RecordRows, offset_deltas: Numbers, deltas_ms: Numbers
) -> tuple[memoryview, npt.NDArray[Any]]:
    """The records one behind the other, and where each begins, with the end of the last."""
    if rows.headers is None:
        encoded = encode_uniform(rows.keys, rows.values, offset_deltas, deltas_ms)
        if encoded is not None:
            return encoded
    key_sizes, value_sizes = sizes_of(rows.keys), sizes_of(rows.values)
    sizes = 1 + varint_sizes(deltas_ms) + varint_sizes(offset_deltas)
    sizes += varint_sizes(key_sizes) + np.maximum(key_sizes, 0)
    sizes += varint_sizes(value_sizes) + np.maximum(value_sizes, 0)
    if rows.headers is None:
        sizes += 1
        tail = [pa.scalar(b"\x00", pa.binary())]
    else:
        headers, header_counts = header_bytes(rows.headers)
        sizes += varint_sizes(header_counts) + sizes_of(headers)
        tail = [varint_column(header_counts), headers]
    records = pc.binary_join_element_wise(
        varint_column(sizes),
        pa.scalar(b"\x00", pa.binary()),  # Attributes of a record: none are defined.
        varint_column(deltas_ms),
        varint_column(offset_deltas),
        varint_column(key_sizes),
        rows.keys.fill_null(b""),
        varint_column(value_sizes),
        rows.values.fill_null(b""),
        *tail,
        pa.scalar(b"", pa.binary()),
    )
    ends = np.frombuffer(records.buffers()[1], np.int32)[: len(records) + 1]
    return memoryview(records.buffers()[2]), ends

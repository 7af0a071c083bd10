"""The headers of records as a list column, read and written.

A record without headers has null, as in Spark's Kafka source: the log does not tell it from an
empty list.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.columns.fields import RecordFields, ValueSpan, gather, read_span
from semel.client.columns.varints import (
    Bytes,
    Numbers,
    binary_column,
    ends_from,
    varint_column,
)
from semel.errors import CorruptMessage
from semel.records.varint import read_varint

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

_TOGETHER_MAX = 32
"""Headers of a record that are read together with those of the others; the rest is walked."""


def read_headers(plain: pa.Buffer, buffer: Bytes, fields: RecordFields) -> pa.Array:
    counts = fields.header_counts
    record_count = counts.size
    offsets = np.zeros(record_count + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    total = int(offsets[-1])
    if total == 0:
        return pa.nulls(record_count, HEADERS)
    name_begins, name_sizes, value_begins, value_sizes = np.empty((4, total), np.int64)
    position = fields.header_begins.copy()
    for number in range(min(int(counts.max()), _TOGETHER_MAX)):
        records = np.flatnonzero(counts > number)
        names = read_span(buffer, position[records], fields.ends[records], "header's name")
        values = read_span(buffer, names.ends, fields.ends[records], "header's value")
        places = offsets[records] + number
        name_begins[places], name_sizes[places] = names
        value_begins[places], value_sizes[places] = values
        position[records] = values.ends
    for record in np.flatnonzero(counts > _TOGETHER_MAX):
        place = int(offsets[record]) + _TOGETHER_MAX
        walked = _walk(
            memoryview(plain),
            int(position[record]),
            int(fields.ends[record]),
            int(counts[record]) - _TOGETHER_MAX,
        )
        rest = np.array(walked, np.int64).reshape(-1, 4).T
        until = place + rest.shape[1]
        name_begins[place:until], name_sizes[place:until] = rest[0], rest[1]
        value_begins[place:until], value_sizes[place:until] = rest[2], rest[3]
        position[record] = fields.ends[record]
    if (position != fields.ends).any() or (name_sizes < 0).any():
        raise CorruptMessage("a record's headers do not end where its size says")
    names_and_values = gather(
        plain, [ValueSpan(name_begins, name_sizes), ValueSpan(value_begins, value_sizes)]
    )
    try:
        names_column = names_and_values[0].cast(pa.string())
    except pa.ArrowInvalid:
        raise CorruptMessage("the name of a record's header is not UTF-8") from None
    pairs = pa.StructArray.from_arrays(
        [names_column, names_and_values[1]], fields=list(HEADERS.value_type)
    )
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pairs, type=HEADERS, mask=pa.array(counts == 0)
    )


def _walk(plain: memoryview, position: int, end: int, count: int) -> list[int]:
    bounds: list[int] = []
    for _ in range(count):
        for _ in ("name", "value"):
            size, begin = read_varint(plain, position)
            if not -1 <= size <= end - begin:
                raise CorruptMessage(f"header at byte {position} does not fit into its record")
            bounds += (begin, size)
            position = begin + max(size, 0)
    if position != end:
        raise CorruptMessage(f"a record's headers end at byte {position}, not {end}")
    return bounds


def header_bytes(headers: pa.Array) -> tuple[pa.Array, Numbers]:
    """The headers of each record as they stand in it, without their count; and the counts."""
    counts = as_numbers(pc.list_value_length(headers), 0)
    # Flattening leaves out what stands behind nulls.
    pairs = pc.list_flatten(headers)
    if len(pairs) == 0:
        return binary_column(np.zeros(counts.size + 1, np.int32), pa.py_buffer(b"")), counts
    names, values = (as_binary(column) for column in pairs.flatten())
    if names.null_count:
        raise ValueError("a header has no name")
    encoded = pc.binary_join_element_wise(
        varint_column(sizes_of(names)),
        names,
        varint_column(sizes_of(values)),
        values.fill_null(b""),
        b"",
    )
    pair_offsets = np.frombuffer(encoded.buffers()[1], np.int32)[: len(encoded) + 1]
    return binary_column(pair_offsets[ends_from(counts)], encoded.buffers()[2]), counts


def as_binary(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())


def sizes_of(column: pa.Array) -> Numbers:
    """The size of each value, -1 for null."""
    return as_numbers(pc.binary_length(column), -1)


def as_numbers(column: pa.Array, null: int) -> Numbers:
    filled = column.fill_null(null) if column.null_count else column
    numbers: Numbers = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers

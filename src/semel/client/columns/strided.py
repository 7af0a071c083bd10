"""Records of one shape, read by stride: every field is a slice of the bytes, nothing is looked up.

A run has one shape if each record has its key, its value and their sizes in the same place. Only
the numbers before them may differ, as long as they take the same room.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semel.client.columns.headers import HEADERS
from semel.client.columns.varints import Bytes, Numbers
from semel.client.columns.walk import Run
from semel.records.varint import read_varint
from semel.types import Buffer

_ATTRIBUTES_SIZE = 1
_NO_HEADERS = 0
_VARINT_SIZE_MAX = 10


class Shape(NamedTuple):
    """What the records of a run have in common, and the numbers in which they differ."""

    run: Run
    timestamp_deltas_ms: Numbers
    offset_deltas: Numbers
    key_begin: int
    key_size: int
    value_begin: int
    value_size: int


class StridedRecords:
    def __init__(self, buffer: Bytes, shapes: Sequence[Shape]) -> None:
        self._buffer = buffer
        self._shapes = shapes
        self.count = sum(shape.run.record_count for shape in shapes)
        self.timestamp_deltas_ms = np.concatenate([each.timestamp_deltas_ms for each in shapes])
        self.offset_deltas = np.concatenate([each.offset_deltas for each in shapes])

    def keys(self) -> pa.Array:
        return self._column([(each.run, each.key_begin, each.key_size) for each in self._shapes])

    def values(self) -> pa.Array:
        return self._column(
            [(each.run, each.value_begin, each.value_size) for each in self._shapes]
        )

    def headers(self) -> pa.Array:
        return pa.nulls(self.count, HEADERS)

    def _column(self, pieces: Sequence[tuple[Run, int, int]]) -> pa.Array:
        """The same part of each record, copied row by row to where it belongs."""
        counts = [run.record_count for run, _, _ in pieces]
        sizes = np.repeat([max(size, 0) for _, _, size in pieces], counts)
        offsets = np.zeros(self.count + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        contents = np.empty(int(offsets[-1]), np.uint8)
        filled = 0
        for run, begin, size in pieces:
            if size <= 0:
                continue
            until = filled + size * run.record_count
            rows = self._buffer[run.position : run.position + run.stride * run.record_count]
            start = begin - run.position
            contents[filled:until].reshape(run.record_count, size)[:] = rows.reshape(
                run.record_count, run.stride
            )[:, start : start + size]
            filled = until
        validity = None
        if any(size < 0 for _, _, size in pieces):
            is_valid = np.repeat([size >= 0 for _, _, size in pieces], counts)
            validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
        return pa.Array.from_buffers(
            pa.binary(), self.count, [validity, pa.py_buffer(offsets), pa.py_buffer(contents)]
        )


def shape_of(plain: Buffer, buffer: Bytes, run: Run) -> Shape | None:
    """None if the records of the run are not of one shape, or have headers, or are damaged."""
    end = run.position + run.stride
    timestamps = _numbers_at(buffer, run, run.begin + _ATTRIBUTES_SIZE, end)
    if timestamps is None:
        return None
    offsets = _numbers_at(buffer, run, timestamps[1], end)
    if offsets is None:
        return None
    key = _size_at(plain, buffer, run, offsets[1], end)
    if key is None:
        return None
    key_size, key_begin = key
    value = _size_at(plain, buffer, run, key_begin + max(key_size, 0), end)
    if value is None:
        return None
    value_size, value_begin = value
    last = value_begin + max(value_size, 0)
    if last + 1 != end or (_column_at(buffer, run, last) != _NO_HEADERS).any():
        return None
    return Shape(run, timestamps[0], offsets[0], key_begin, key_size, value_begin, value_size)


def _column_at(buffer: Bytes, run: Run, position: int) -> Bytes:
    """The byte at this position of the first record, and that of each of the others."""
    return buffer[position : position + run.stride * (run.record_count - 1) + 1 : run.stride]


def _numbers_at(buffer: Bytes, run: Run, position: int, end: int) -> tuple[Numbers, int] | None:
    """The varints of one width that stand at this position, and where the next thing begins."""
    numbers = np.zeros(run.record_count, np.uint64)
    for number in range(min(_VARINT_SIZE_MAX - 1, end - position)):
        column = _column_at(buffer, run, position + number)
        numbers |= (column & 0x7F).astype(np.uint64) << np.uint64(7 * number)
        if column.max() < 0x80:
            decoded = (numbers >> np.uint64(1)) ^ -(numbers & np.uint64(1))
            return decoded.view(np.int64), position + number + 1
        if column.min() < 0x80:
            return None
    return None


def _size_at(
    plain: Buffer, buffer: Bytes, run: Run, position: int, end: int
) -> tuple[int, int] | None:
    """The size that all records have at this position, and where its content begins."""
    if position >= end:
        return None
    size, begin = read_varint(plain, position)
    if not -1 <= size <= end - begin:
        return None
    for place in range(position, begin):
        column = _column_at(buffer, run, place)
        if (column != column[0]).any():
            return None
    return size, begin

"""Records of one shape, read by stride: every field is a slice of the bytes, nothing is looked up.

A run has one shape if each record has its key, its value and their sizes in the same place. Only
the numbers before them may differ, as long as they take the same room.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.client.columns.headers import HEADERS
from semel.client.columns.varints import Bytes, Numbers
from semel.client.columns.walk import RecordRun, Words, first_unlike, mask_of, words_at
from semel.records.varint import read_varint
from semel.types import Buffer

_ATTRIBUTES_SIZE = 1


class RecordShape(NamedTuple):
    """What the records of a run have in common, and the numbers in which they differ."""

    run: RecordRun
    timestamp_deltas_ms: Numbers
    offset_deltas: Numbers
    key_begin: int
    key_size: int
    value_begin: int
    value_size: int


class StridedRecords:
    def __init__(self, buffer: Bytes, shapes: Sequence[RecordShape]) -> None:
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

    def _column(self, pieces: Sequence[tuple[RecordRun, int, int]]) -> pa.Array:
        """The same part of each record, copied row by row to where it belongs."""
        offsets = self._ends_of([max(size, 0) for _, _, size in pieces])
        # Arrow's memory is reused, where numpy's goes back to the system each time.
        memory = pa.allocate_buffer(int(offsets[-1]))
        contents = np.frombuffer(memory, np.uint8)
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
            counts = [run.record_count for run, _, _ in pieces]
            is_valid = np.repeat([size >= 0 for _, _, size in pieces], counts)
            validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
        return pa.Array.from_buffers(
            pa.binary(), self.count, [validity, pa.py_buffer(offsets), memory]
        )

    def _ends_of(self, sizes: list[int]) -> npt.NDArray[np.int32]:
        """Arrow's offsets of values that have one size in each run."""
        if min(sizes) == max(sizes):
            return np.arange(self.count + 1, dtype=np.int32) * np.int32(sizes[0])
        offsets = np.zeros(self.count + 1, np.int32)
        counts = [shape.run.record_count for shape in self._shapes]
        np.cumsum(np.repeat(sizes, counts), out=offsets[1:])
        return offsets


def shape_of(plain: Buffer, buffer: Bytes, run: RecordRun) -> RecordShape | None:
    """None if the records of the run are not of one shape, or have headers, or are damaged.

    The first record tells where things are; the bytes that told it must be those of all.
    """
    end = run.position + run.stride
    timestamp_begin = run.begin + _ATTRIBUTES_SIZE
    _, offset_begin = read_varint(plain, timestamp_begin)
    _, key_size_begin = read_varint(plain, offset_begin)
    key_size, key_begin = read_varint(plain, key_size_begin)
    value_size_begin = key_begin + max(key_size, 0)
    if not -1 <= key_size < end - key_begin:
        return None
    value_size, value_begin = read_varint(plain, value_size_begin)
    header_count_begin = value_begin + max(value_size, 0)
    if value_size < -1 or header_count_begin + 1 != end:
        return None
    places = (
        (timestamp_begin, key_begin - timestamp_begin),
        (value_size_begin, value_begin - value_size_begin),
        (header_count_begin, 1),
    )
    heads, value_sizes, header_counts = (
        words_at(buffer, place, width, run.stride, run.record_count) for place, width in places
    )
    if heads is None or value_sizes is None or header_counts is None or header_counts.any():
        return None
    # Numbers may differ in all but their widths, sizes in nothing.
    number_width = key_size_begin - timestamp_begin
    head_mask = mask_of(0x80, 0, number_width) | mask_of(
        0xFF, number_width, key_begin - timestamp_begin
    )
    size_mask = mask_of(0xFF, 0, value_begin - value_size_begin)
    if (
        first_unlike(heads, head_mask) < run.record_count
        or first_unlike(value_sizes, size_mask) < run.record_count
    ):
        return None
    return RecordShape(
        run,
        _numbers(heads, 0, offset_begin - timestamp_begin),
        _numbers(heads, offset_begin - timestamp_begin, number_width),
        key_begin,
        key_size,
        value_begin,
        value_size,
    )


def _numbers(words: Words, begin: int, end: int) -> Numbers:
    """The varint that these bytes of each word are."""
    numbers = words >> words.dtype.type(8 * begin)
    numbers &= words.dtype.type(0x7F)
    for place in range(begin + 1, end):
        group = place - begin
        # Where the bits of this byte belong, once the flag of each byte before it is left out.
        more = words >> words.dtype.type(8 * place - 7 * group)
        more &= words.dtype.type(0x7F << 7 * group)
        numbers |= more
    signs = numbers & words.dtype.type(1)
    numbers >>= words.dtype.type(1)
    decoded: Numbers = numbers.astype(np.int64)
    decoded ^= -signs.astype(np.int64)
    return decoded

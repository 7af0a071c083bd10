"""Rows of one size, written by stride: each field of all records is set at once.

Keys have one size and values have one, so that records differ in size only where their numbers
take more room: between such places they are the rows of a matrix of bytes.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.client.columns.varints import Bytes, Numbers, varint_sizes
from semel.records.varint import append_varint

_RUNS_FREE = 8
_RUN_WORTH = 16
"""Runs shorter than this, on the average, are written faster in the general way."""


def encode_uniform(
    keys: pa.Array, values: pa.Array, offset_deltas: Numbers, deltas_ms: Numbers
) -> tuple[memoryview, npt.NDArray[np.int64]] | None:
    """Records without headers, and where each begins, with the end of the last.

    None if the rows are not of one size.
    """
    key_rows, value_rows = _matrix(keys), _matrix(values)
    if key_rows is None or value_rows is None:
        return None
    numbers = (deltas_ms, offset_deltas)
    sizes = [varint_sizes(each) for each in numbers]
    changes = np.flatnonzero((np.diff(sizes[0]) != 0) | (np.diff(sizes[1]) != 0)) + 1
    count = offset_deltas.size
    if changes.size > _RUNS_FREE + count // _RUN_WORTH:
        return None
    contents = ((_size_bytes(keys), key_rows), (_size_bytes(values), value_rows))
    content_size = sum(len(size) + rows.shape[1] for size, rows in contents)
    bounds = [0, *changes.tolist(), count]
    widths = [(int(sizes[0][begin]), int(sizes[1][begin])) for begin in bounds[:-1]]
    body_sizes = [2 + sum(pair) + content_size for pair in widths]
    strides = [body_size + len(_varint(body_size)) for body_size in body_sizes]
    counts = np.diff(bounds)
    begins = np.zeros(count + 1, np.int64)
    np.cumsum(np.repeat(strides, counts), out=begins[1:])
    memory = pa.allocate_buffer(int(begins[-1]))
    written = np.frombuffer(memory, np.uint8)
    for number, (begin, end) in enumerate(pairwise(bounds)):
        matrix = written[begins[begin] : begins[end]].reshape(end - begin, strides[number])
        place = _put(matrix, 0, _varint(body_sizes[number]) + b"\x00")
        for values_of, width in zip(numbers, widths[number], strict=True):
            place = _put_varints(matrix, place, values_of[begin:end], width)
        for size, rows in contents:
            place = _put(matrix, place, size)
            matrix[:, place : place + rows.shape[1]] = rows[begin:end]
            place += rows.shape[1]
        matrix[:, place] = 0
    return memoryview(memory), begins


def _matrix(column: pa.Array) -> Bytes | None:
    """The values as rows of one size; without columns if all are empty or null."""
    count = len(column)
    if column.null_count:
        return np.empty((count, 0), np.uint8) if column.null_count == count else None
    _, offsets_buffer, contents = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset : column.offset + count + 1]
    size = int(offsets[1] - offsets[0])
    if (np.diff(offsets) != size).any():
        return None
    if size == 0:
        return np.empty((count, 0), np.uint8)
    return np.frombuffer(contents, np.uint8)[offsets[0] : offsets[-1]].reshape(count, size)


def _size_bytes(column: pa.Array) -> bytes:
    return _varint(-1 if column.null_count else len(column[0].as_py()))


def _varint(number: int) -> bytes:
    out = bytearray()
    append_varint(out, number)
    return bytes(out)


def _put(matrix: Bytes, place: int, same: Sequence[int]) -> int:
    """Write these bytes into each row; where the next thing begins."""
    for column, byte in enumerate(same, place):
        matrix[:, column] = byte
    return place + len(same)


def _put_varints(matrix: Bytes, place: int, numbers: Numbers, width: int) -> int:
    zigzags = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    for number in range(width):
        group = (zigzags >> np.uint64(7 * number)).astype(np.uint8)
        is_last = number == width - 1
        matrix[:, place + number] = group if is_last else group | 0x80
    return place + width

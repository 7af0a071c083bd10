"""Zigzag varints by the thousand: read at many positions at once, written as one Arrow column."""

from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import CorruptMessage

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_SIZE_MAX = 10
_TABLE_SIZE = 1 << 16


def read_varints(buffer: Bytes, positions: Numbers) -> tuple[Numbers, Numbers]:
    """The number at each position, and where the next thing begins.

    A position beyond the buffer reads some byte within it: the caller compares where its reading
    ended with where it had to.
    """
    first = buffer.take(positions, mode="clip")
    behind = positions + 1
    is_longer = first >= 0x80
    if not is_longer.any():
        numbers = first.astype(np.int64)
        return (numbers >> 1) ^ -(numbers & 1), behind
    # Without a branch: sizes and offset deltas of real batches have one byte or two.
    second = buffer.take(behind, mode="clip") * is_longer
    behind += is_longer
    longer = (first & 0x7F).astype(np.uint64)
    longer |= (second & 0x7F).astype(np.uint64) << np.uint64(7)
    rest = np.flatnonzero(second >= 0x80)
    shift = 14
    while rest.size:
        byte = buffer.take(behind[rest], mode="clip")
        if shift == 7 * (_SIZE_MAX - 1) and (byte > 1).any():
            raise CorruptMessage("a varint has more than 64 bits")
        longer[rest] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        behind[rest] += 1
        rest = rest[byte >= 0x80]
        shift += 7
    return ((longer >> np.uint64(1)) ^ -(longer & np.uint64(1))).view(np.int64), behind


def varint_column(numbers: Numbers) -> pa.Array:
    """Each number as the bytes of its varint."""
    if not numbers.size or (numbers.min() >= -1 and numbers.max() < _TABLE_SIZE - 1):
        column, _ = _table()
        return column.take(pa.array(numbers + 1))
    return _encoded(numbers)


def varint_sizes(numbers: Numbers) -> Numbers:
    """How many bytes each number's varint has."""
    if not numbers.size or (numbers.min() >= -1 and numbers.max() < _TABLE_SIZE - 1):
        _, sizes = _table()
        return sizes[numbers + 1]
    return _sizes(_zigzag(numbers))


@cache
def _table() -> tuple[pa.Array, Numbers]:
    """The varints of -1 and up, with their sizes."""
    numbers = np.arange(-1, _TABLE_SIZE - 1, dtype=np.int64)
    return _encoded(numbers), _sizes(_zigzag(numbers))


def _zigzag(numbers: Numbers) -> npt.NDArray[np.uint64]:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _sizes(zigzags: npt.NDArray[np.uint64]) -> Numbers:
    sizes = np.ones(zigzags.size, np.int64)
    for count in range(1, _SIZE_MAX):
        sizes += zigzags >= np.uint64(1 << 7 * count)
    return sizes


def _encoded(numbers: Numbers) -> pa.Array:
    zigzags = _zigzag(numbers)
    sizes = _sizes(zigzags)
    shifts = np.arange(_SIZE_MAX, dtype=np.uint64) * np.uint64(7)
    groups = (zigzags[:, None] >> shifts & np.uint64(0x7F)).astype(np.uint8)
    places = np.arange(_SIZE_MAX)
    groups |= np.where(places < sizes[:, None] - 1, np.uint8(0x80), np.uint8(0))
    written = groups[places < sizes[:, None]]
    return binary_column(ends_from(sizes), pa.py_buffer(written))


def ends_from(sizes: Numbers) -> npt.NDArray[np.int32]:
    """Arrow's offsets of values of these sizes that stand one behind the other."""
    offsets = np.zeros(sizes.size + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def binary_column(offsets: npt.NDArray[np.int32], values: pa.Buffer) -> pa.Array:
    """A binary column over bytes that are there already."""
    return pa.Array.from_buffers(
        pa.binary(), offsets.size - 1, [None, pa.py_buffer(offsets), values]
    )

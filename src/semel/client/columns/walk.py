"""Where the records of a batch begin and end: the one thing that has to be read in order.

Records of one size, as machines write them, are found by stride: if the record at `p` has size
`s`, the next stands at `p + s`, so equal size bytes at equal distances prove a whole run at once.
Others are walked one by one.
"""

import numpy as np

from semel.client.columns.varints import Bytes, Numbers
from semel.errors import CorruptMessage
from semel.records.varint import read_varint
from semel.types import Buffer

_RUN_FIRST = 64
_RUN_GROWTH = 8
_RUN_WORTH = 16
"""A run shorter than this costs more than walking it."""
_WALK_BETWEEN_RUNS = 512


def record_bounds(
    plain: Buffer, buffer: Bytes, position: int, end: int, count: int
) -> tuple[Numbers, Numbers]:
    """Begin, behind the size, and end of each of the `count` records that fill `position..end`."""
    begins: list[Numbers] = []
    ends: list[Numbers] = []
    left = count
    while left:
        first, stride, run_count = _run_at(plain, buffer, position, end, left)
        begins.append(np.arange(first, first + stride * run_count, stride, dtype=np.int64))
        ends.append(begins[-1] + (position + stride - first))
        position += stride * run_count
        left -= run_count
        if left and run_count < _RUN_WORTH:
            step = min(left, _WALK_BETWEEN_RUNS)
            walked, position = _walk(plain, position, end, step)
            bounds = np.array(walked, np.int64)
            begins.append(bounds[0::2])
            ends.append(bounds[1::2])
            left -= step
    if position != end:
        raise CorruptMessage(f"{end - position} bytes stand behind the last record of a batch")
    if not begins:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(begins), np.concatenate(ends)


def _run_at(
    plain: Buffer, buffer: Bytes, position: int, end: int, count_max: int
) -> tuple[int, int, int]:
    """First begin, stride and number of records of the size of the one at `position`."""
    size, first = read_varint(plain, position)
    stride = first - position + size
    if size <= 0 or position + stride > end:
        raise CorruptMessage(f"record at byte {position}: size {size} of {end - first}")
    fitting = min((end - position) // stride, count_max)
    width = first - position
    mark = buffer[position:first]
    known = 1
    window = _RUN_FIRST
    while known < fitting:
        window = min(window, fitting - known)
        begin = position + known * stride
        rows = buffer[begin : begin + window * stride].reshape(window, stride)
        is_same = rows[:, 0] == mark[0]
        for column in range(1, width):
            is_same &= rows[:, column] == mark[column]
        if not is_same.all():
            known += int(is_same.argmin())
            break
        known += window
        window *= _RUN_GROWTH
    return first, stride, known


def _walk(plain: Buffer, position: int, end: int, count: int) -> tuple[list[int], int]:
    """Begin and end of `count` records, in one flat list, and the end of the last."""
    bounds: list[int] = []
    note = bounds.append
    try:
        for _ in range(count):
            byte = plain[position]
            if byte < 0x80:
                begin = position + 1
                size = byte
            else:
                second = plain[position + 1]
                if second < 0x80:
                    begin = position + 2
                    size = byte & 0x7F | second << 7
                else:
                    number, begin = read_varint(plain, position)
                    size = number << 1
            # An odd number is a negative size.
            if size & 1 or size <= 0:
                raise CorruptMessage(f"record at byte {position}: its size is not above 0")
            note(begin)
            position = begin + (size >> 1)
            note(position)
    except IndexError:
        raise CorruptMessage(f"record at byte {position} begins behind its batch") from None
    if position > end:
        raise CorruptMessage(f"a record ends at byte {position}, its batch at byte {end}")
    return bounds, position

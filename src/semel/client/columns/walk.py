"""Where the records of a batch begin and end: the one thing that has to be read in order.

Records of one size, as machines write them, are found by stride: if the record at `p` takes `s`
bytes, the next stands at `p + s`, so equal size bytes at equal distances prove a whole run at
once. Others are walked one by one.
"""

from typing import NamedTuple

import numpy as np

from semel.client.columns.varints import Bytes, Numbers, read_varints
from semel.errors import CorruptMessage
from semel.records.varint import read_varint
from semel.types import Buffer

_WINDOW_FIRST = 64
_WINDOW_GROWTH = 8
_RUNS_FREE = 8
_RUN_WORTH = 16
"""Runs shorter than this, on the average, cost more than walking."""

# What the first byte of a size of two bytes adds to a position; the second counts 64 each.
_STEP = tuple(2 + ((byte & 0x7F) >> 1) for byte in range(256))


class Run(NamedTuple):
    """Records of one size, one behind the other."""

    position: int
    begin: int
    """Behind the size of the first."""
    stride: int
    record_count: int


def find_runs(
    plain: Buffer, buffer: Bytes, position: int, end: int, count: int
) -> list[Run] | None:
    """The `count` records that fill `position..end`, or None if they are of too many sizes."""
    runs: list[Run] = []
    left = count
    while left:
        if len(runs) > _RUNS_FREE + (count - left) // _RUN_WORTH:
            return None
        run = _run_at(plain, buffer, position, end, left)
        runs.append(run)
        position += run.stride * run.record_count
        left -= run.record_count
    if position != end:
        raise CorruptMessage(f"{end - position} bytes stand behind the last record of a batch")
    return runs


def _run_at(plain: Buffer, buffer: Bytes, position: int, end: int, count_max: int) -> Run:
    size, begin = read_varint(plain, position)
    stride = begin - position + size
    if size <= 0 or position + stride > end:
        raise CorruptMessage(f"record at byte {position}: size {size} of {end - begin}")
    fitting = min((end - position) // stride, count_max)
    mark = buffer[position:begin]
    known = 1
    window = _WINDOW_FIRST
    while known < fitting:
        window = min(window, fitting - known)
        start = position + known * stride
        rows = buffer[start : start + window * stride].reshape(window, stride)
        is_same = rows[:, 0] == mark[0]
        for column in range(1, mark.size):
            is_same &= rows[:, column] == mark[column]
        if not is_same.all():
            known += int(is_same.argmin())
            break
        known += window
        window *= _WINDOW_GROWTH
    return Run(position, begin, stride, known)


def record_bounds(
    plain: Buffer, buffer: Bytes, position: int, end: int, count: int
) -> tuple[Numbers, Numbers]:
    """Begin, behind the size, and end of each of the `count` records that fill `position..end`."""
    positions: list[int] = []
    note = positions.append
    try:
        for _ in range(count):
            note(position)
            byte = plain[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
                continue
            second = plain[position + 1]
            if second < 0x80:
                position += _STEP[byte] + (second << 6)
            else:
                size, begin = read_varint(plain, position)
                position = begin + size
    except IndexError:
        raise CorruptMessage(f"record at byte {position} begins behind its batch") from None
    sizes, begins = read_varints(buffer, np.array(positions, np.int64))
    if position != end or (sizes <= 0).any():
        raise CorruptMessage(f"the records of a batch end at byte {position}, not {end}")
    return begins, begins + sizes

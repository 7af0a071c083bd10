"""Where the records of a batch begin and end: the one thing that has to be read in order.

Records of one size, as machines write them, are found by stride: if the record at `p` takes `s`
bytes, the next stands at `p + s`, so equal size bytes at equal distances prove a whole run at
once. Others are guessed (`chain`), or else walked one by one.
"""

from typing import NamedTuple

import numpy as np

from semel.client.columns.chain import chained_records
from semel.client.columns.varints import Bytes, Numbers, read_varints
from semel.client.columns.words import first_unlike, mask_of, words_at
from semel.errors import CorruptMessage
from semel.records.varint import read_varint
from semel.types import Buffer

_WINDOW_FIRST = 64
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
    # The first few tell whether a run is worth a look at all the others.
    known = 1
    for window in (min(fitting, _WINDOW_FIRST), fitting):
        marks = words_at(buffer, position, begin - position, stride, window)
        assert marks is not None, "a record is longer than its size, and that is five bytes or less"
        known = first_unlike(marks, mask_of(0xFF, 0, begin - position))
        if known < window:
            break
    return Run(position, begin, stride, known)


def record_bounds(
    plain: Buffer, buffer: Bytes, position: int, end: int, count: int
) -> tuple[Numbers, Numbers]:
    """Begin, behind the size, and end of each of the `count` records that fill `position..end`."""
    begins, ends = chained_records(plain, buffer, position, end, count) or _walked(
        plain, buffer, position, end, count
    )
    if begins.size != count or ends[-1] != end or (ends <= begins).any():
        raise CorruptMessage(
            f"{count} records should fill bytes {position} to {end}: "
            f"there are {begins.size}, which end at {ends[-1]}"
        )
    return begins, ends


def _walked(
    plain: Buffer, buffer: Bytes, position: int, end: int, count: int
) -> tuple[Numbers, Numbers]:
    # `bytes` answers an index several times faster than a memoryview.
    batch = bytes(memoryview(plain)[position:end])
    places: list[int] = []
    note = places.append
    place = 0
    try:
        for _ in range(count):
            note(place)
            byte = batch[place]
            if byte < 0x80:
                place += 1 + (byte >> 1)
                continue
            second = batch[place + 1]
            if second < 0x80:
                place += _STEP[byte] + (second << 6)
            else:
                size, begin = read_varint(batch, place)
                place = begin + size
    except IndexError:
        raise CorruptMessage(f"record at byte {position + place} is behind its batch") from None
    sizes, begins = read_varints(buffer, np.array(places, np.int64) + position)
    return begins, begins + sizes

"""Where the records of a batch begin and end: the one thing that has to be read in order.

Records of one size, as machines write them, are found by stride: if the record at `p` takes `s`
bytes, the next stands at `p + s`, so equal size bytes at equal distances prove a whole run at
once.

Where others begin is guessed from the zeros around, and proved by their sizes. Most records have
no headers, and none has attributes: the byte before a record is a count of nothing, and the one
behind its size is zero. Few other places look like that. A guess counts only if the record before
it ends there, so that a wrong one costs time and nothing else. What is left is walked one by one.
"""

from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from semel.client.columns.varints import Bytes, Numbers, read_varints
from semel.errors import CorruptMessage
from semel.records.varint import read_varint
from semel.types import Buffer

Words = npt.NDArray[Any]
"""Unsigned numbers of one, two, four or eight bytes."""

_SIZES = (1, 2, 4, 8)

_GAPS_FREE = 8
_GAP_WORTH = 32
"""More gaps in the chain than one in so many records, and walking is faster."""

_WINDOW_FIRST = 64
_RUNS_FREE = 8
_RUN_WORTH = 16
"""Runs shorter than this, on the average, cost more than walking."""

# What the first byte of a size of two bytes adds to a position; the second counts 64 each.
_STEP = tuple(2 + ((byte & 0x7F) >> 1) for byte in range(256))


def words_at(buffer: Bytes, position: int, width: int, stride: int, count: int) -> Words | None:
    """The `width` bytes at `position`, and at each `stride` behind it, and what comes with them.

    The first byte is the lowest. None if they are too many for a number, or too near to the end.
    """
    size = next((size for size in _SIZES if size >= width), None)
    if size is None or position + stride * (count - 1) + size > buffer.size:
        return None
    return np.ndarray((count,), f"<u{size}", buffer.data, position, strides=(stride,)).copy()


def mask_of(byte: int, begin: int, end: int) -> int:
    """This byte at the places `begin..end` of a number, and zeros at the others."""
    return int.from_bytes(bytes([byte]) * (end - begin), "little") << 8 * begin


def first_unlike(words: Words, mask: int) -> int:
    """Which word is the first to differ from the first one where the mask has ones; or how many."""
    if mask == np.iinfo(words.dtype).max:
        is_alike = words == words[0]
    else:
        typed = words.dtype.type(mask)
        is_alike = words & typed
        is_alike = is_alike == is_alike[0]
    return words.size if is_alike.all() else int(is_alike.argmin())


def chained_records(
    plain: Buffer, buffer: Bytes, position: int, end: int, count: int
) -> tuple[Numbers, Numbers] | None:
    """Where the `count` records that fill `position..end` stand; None if guessing does not help."""
    first_size, first_begin = read_varint(plain, position)
    first_end = first_begin + first_size
    if not first_begin < first_end < end or plain[first_end - 1] != 0:
        return None
    guesses = np.concatenate([[position], _guesses(buffer, position, end)])
    gaps_max = _GAPS_FREE + count // _GAP_WORTH
    if guesses.size < count - gaps_max:
        return None
    sizes, begins = read_varints(buffer, guesses)
    ends = begins + sizes
    gaps = np.flatnonzero(ends[:-1] != guesses[1:])
    if gaps.size > gaps_max:
        return None
    if not gaps.size and ends[-1] == end:
        return begins, ends
    return _over_gaps(plain, end, guesses, begins, ends, gaps)


def _guesses(buffer: Bytes, position: int, end: int) -> Numbers:
    """Places behind `position` that look like the beginning of a record."""
    is_zero = buffer[position:end] == 0
    # The byte before, and that behind a size of one byte or two.
    looks_like = is_zero[2:-1] | is_zero[3:]
    looks_like &= is_zero[:-3]
    return np.flatnonzero(looks_like) + (position + 1)


def _over_gaps(
    plain: Buffer, end: int, guesses: Numbers, begins: Numbers, ends: Numbers, gaps: Numbers
) -> tuple[Numbers, Numbers] | None:
    """Follow the chain: whole stretches of guesses, and record by record where they are wrong."""
    lasts = [*gaps.tolist(), guesses.size - 1]
    found: list[tuple[Numbers, Numbers]] = []
    steps_left = len(lasts) + _GAPS_FREE
    index = 0
    while True:
        last = lasts[bisect_left(lasts, index)]
        found.append((begins[index : last + 1], ends[index : last + 1]))
        position = int(ends[last])
        index = int(np.searchsorted(guesses, position))
        while index == guesses.size or guesses[index] != position:
            if position >= end:
                return (
                    np.concatenate([part for part, _ in found]),
                    np.concatenate([part for _, part in found]),
                )
            steps_left -= 1
            size, begin = read_varint(plain, position)
            if size <= 0 or steps_left == 0:
                return None
            position = begin + size
            found.append((np.array([begin]), np.array([position])))
            index = int(np.searchsorted(guesses, position))


class RecordRun(NamedTuple):
    """Records of one size, one behind the other."""

    position: int
    begin: int
    """Behind the size of the first."""
    stride: int
    record_count: int


def find_runs(
    plain: Buffer, buffer: Bytes, position: int, end: int, count: int
) -> list[RecordRun] | None:
    """The `count` records that fill `position..end`, or None if they are of too many sizes."""
    runs: list[RecordRun] = []
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


def _run_at(plain: Buffer, buffer: Bytes, position: int, end: int, count_max: int) -> RecordRun:
    size, begin = read_varint(plain, position)
    stride = begin - position + size
    if size <= 0 or position + stride > end:
        raise CorruptMessage(f"record at byte {position}: size {size} of {end - begin}")
    fitting = min((end - position) // stride, count_max)
    # The first few tell whether a run is worth a look at all the others.
    known = 1
    for window in (min(fitting, _WINDOW_FIRST), fitting):
        sizes = words_at(buffer, position, begin - position, stride, window)
        assert sizes is not None, "a record is longer than its size, and that is five bytes or less"
        known = first_unlike(sizes, mask_of(0xFF, 0, begin - position))
        if known < window:
            break
    return RecordRun(position, begin, stride, known)


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

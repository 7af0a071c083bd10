"""Where records of many sizes begin: guessed from the zeros around, proved by their sizes.

Most records have no headers, and none has attributes: the byte before a record is a count of
nothing, and the one behind its size is zero. Few other places look like that. A guess counts only
if the record before it ends there, so that a wrong one costs time and nothing else.
"""

from bisect import bisect_left

import numpy as np

from semel.client.columns.varints import Bytes, Numbers, read_varints
from semel.records.varint import read_varint
from semel.types import Buffer

_GAPS_FREE = 8
_GAP_WORTH = 32
"""More gaps in the chain than one in so many records, and walking is faster."""


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

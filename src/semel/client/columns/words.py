"""A few bytes at the same place of many records, as one number each."""

from typing import Any

import numpy as np
import numpy.typing as npt

from semel.client.columns.varints import Bytes

Words = npt.NDArray[Any]
"""Unsigned numbers of one, two, four or eight bytes."""

_SIZES = (1, 2, 4, 8)


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

"""Which partition of an internal topic holds a group or a transactional id, by Kafka's hash."""

from functools import lru_cache
from typing import Final

KEYS_REMEMBERED: Final = 4_096
"""Those who are at work ask again with every request."""


@lru_cache(KEYS_REMEMBERED)
def partition_for(key: str, partition_count: int) -> int:
    """The absolute value of Java's `String.hashCode`, modulo the count.

    Java counts in UTF-16 units and 32 bits; the one value whose negation does not fit is 0.
    """
    units = key.encode("utf-16-be")
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    if hashed == 2**31:
        hashed = 0
    elif hashed > 2**31:
        hashed = 2**32 - hashed
    return hashed % partition_count

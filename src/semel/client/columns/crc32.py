"""The CRC-32 that librdkafka takes of keys, over a column of them."""

from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.client.columns.keys import key_bytes

_ALL_BITS = np.uint32(0xFFFFFFFF)
_BYTE = np.uint32(0xFF)
# What one byte does to a digest of nothing, without the inversions at both ends.
_OF_BYTE = np.array([crc32(bytes([byte]), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)], "<u4")
_TOGETHER_MAX = 64
"""Bytes of a key that are taken together with those of the others; the rest, key by key."""


def crc32_column(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """The hash of each key; of a null it is meaningless."""
    count = len(keys)
    content, begins, sizes = key_bytes(keys)
    digests = np.full(count, _ALL_BITS)
    for position in range(min(int(sizes.max()), _TOGETHER_MAX) if count else 0):
        longer = np.flatnonzero(sizes > position)
        places = slice(None) if longer.size == count else longer
        digest = digests[places]
        byte = (digest ^ content[begins[places] + position]) & _BYTE
        digests[places] = _OF_BYTE[byte] ^ digest >> np.uint32(8)
    digests ^= _ALL_BITS
    for number in np.flatnonzero(sizes > _TOGETHER_MAX):
        begin = begins[number]
        rest = content[begin + _TOGETHER_MAX : begin + sizes[number]]
        digests[number] = crc32(rest.data, int(digests[number]))
    return digests

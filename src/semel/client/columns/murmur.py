"""The murmur2 of Kafka's Java client, over a column of keys."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.client.columns.keys import WORD_SIZE, key_bytes

_SEED = np.uint32(0x9747B28C)
_MIX = np.uint32(0x5BD1E995)


def murmur2_column(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """The hash of each key; of a null it is meaningless."""
    count = len(keys)
    content, begins, sizes = key_bytes(keys)
    words = np.ndarray((content.size - WORD_SIZE + 1,), "<u4", content, strides=(1,))
    digests = sizes.astype(np.uint32) ^ _SEED
    for number in range(int(sizes.max()) // WORD_SIZE if count else 0):
        longer = np.flatnonzero(sizes >= WORD_SIZE * (number + 1))
        places = slice(None) if longer.size == count else longer
        word = words[begins[places] + WORD_SIZE * number] * _MIX
        word ^= word >> np.uint32(24)
        word *= _MIX
        digests[places] = digests[places] * _MIX ^ word
    left = sizes & (WORD_SIZE - 1)
    tails = np.flatnonzero(left)
    if tails.size:
        masks = (np.uint32(1) << (left[tails] * 8).astype(np.uint32)) - np.uint32(1)
        word = words[begins[tails] + (sizes[tails] - left[tails])] & masks
        digests[tails] = (digests[tails] ^ word) * _MIX
    digests ^= digests >> np.uint32(13)
    digests *= _MIX
    digests ^= digests >> np.uint32(15)
    return digests

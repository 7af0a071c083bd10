"""Kafka's murmur2 over a column of keys, so that each lands where every other client puts it."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED = np.uint32(0x9747B28C)
_MIX = np.uint32(0x5BD1E995)
_WORD_SIZE = 4


def murmur2_column(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """The hash of each key; of a null it is meaningless."""
    count = len(keys)
    _, offsets_buffer, values = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + count + 1]
    begins = offsets[:-1].astype(np.int64)
    sizes = np.diff(offsets)
    low, high = (int(offsets[0]), int(offsets[-1])) if count else (0, 0)
    # Whole words are read, so that the last key needs some room behind it.
    padded = np.zeros(high - low + _WORD_SIZE, np.uint8)
    if high > low:
        padded[: high - low] = np.frombuffer(values, np.uint8)[low:high]
    begins -= low
    words = np.ndarray((high - low + 1,), "<u4", padded, strides=(1,))
    digests = sizes.astype(np.uint32) ^ _SEED
    for number in range(int(sizes.max()) // _WORD_SIZE if count else 0):
        longer = np.flatnonzero(sizes >= _WORD_SIZE * (number + 1))
        places = slice(None) if longer.size == count else longer
        word = words[begins[places] + _WORD_SIZE * number] * _MIX
        word ^= word >> np.uint32(24)
        word *= _MIX
        digests[places] = digests[places] * _MIX ^ word
    left = sizes & (_WORD_SIZE - 1)
    tails = np.flatnonzero(left)
    if tails.size:
        masks = (np.uint32(1) << (left[tails] * 8).astype(np.uint32)) - np.uint32(1)
        word = words[begins[tails] + (sizes[tails] - left[tails])] & masks
        digests[tails] = (digests[tails] ^ word) * _MIX
    digests ^= digests >> np.uint32(13)
    digests *= _MIX
    digests ^= digests >> np.uint32(15)
    return digests


def partitions_of(
    keys: pa.Array, partition_count: int, next_keyless: int = 0
) -> npt.NDArray[np.int32]:
    """The partition of each key; those without one take turns, beginning with `next_keyless`."""
    if partition_count == 1:
        return np.zeros(len(keys), np.int32)
    hashes = murmur2_column(keys) & np.uint32(0x7FFFFFFF)
    partitions = (hashes % np.uint32(partition_count)).astype(np.int32)
    if keys.null_count:
        keyless = np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))
        turns = np.arange(next_keyless, next_keyless + keyless.size)
        partitions[keyless] = turns % partition_count
    return partitions

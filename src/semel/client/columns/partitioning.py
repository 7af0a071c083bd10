"""Which partition each row of a column of keys goes to, by the hashes of Kafka's clients."""

from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.columns.varints import Bytes, Numbers
from semel.client.producing.partitioners import KeyHash

_WORD_SIZE = 4

_SEED = np.uint32(0x9747B28C)
_MIX = np.uint32(0x5BD1E995)

_ALL_BITS = np.uint32(0xFFFFFFFF)
_BYTE = np.uint32(0xFF)
# What one byte does to a digest of nothing, without the inversions at both ends.
_OF_BYTE = np.array([crc32(bytes([byte]), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)], "<u4")
_TOGETHER_MAX = 64
"""Bytes of a key that are taken together with those of the others; the rest, key by key."""


class _KeyBytes(NamedTuple):
    content: Bytes
    """The keys, one behind the other, with room for one word more."""
    begins: Numbers
    sizes: Numbers


def _key_bytes(keys: pa.Array) -> _KeyBytes:
    count = len(keys)
    _, offsets_buffer, values = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + count + 1]
    low, high = (int(offsets[0]), int(offsets[-1])) if count else (0, 0)
    content = np.zeros(high - low + _WORD_SIZE, np.uint8)
    if high > low:
        content[: high - low] = np.frombuffer(values, np.uint8)[low:high]
    return _KeyBytes(
        content, offsets[:-1].astype(np.int64) - low, np.diff(offsets).astype(np.int64)
    )


def murmur2_column(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """The hash of each key; of a null it is meaningless."""
    count = len(keys)
    content, begins, sizes = _key_bytes(keys)
    words = np.ndarray((content.size - _WORD_SIZE + 1,), "<u4", content, strides=(1,))
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


def crc32_column(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """The hash of each key; of a null it is meaningless."""
    count = len(keys)
    content, begins, sizes = _key_bytes(keys)
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


class ColumnPartitioner:
    """By key; rows without one take turns, from one column to the next."""

    def __init__(self, key_hash: KeyHash, first_turn: int = 0) -> None:
        self._key_hash = key_hash
        self._turn = first_turn

    def partitions_of(self, keys: pa.Array, partition_count: int) -> npt.NDArray[np.int32]:
        if partition_count == 1:
            return np.zeros(len(keys), np.int32)
        partitions = (self._hashes(keys) % np.uint32(partition_count)).astype(np.int32)
        keyless = self._keyless(keys)
        if keyless.size:
            turns = np.arange(self._turn, self._turn + keyless.size)
            partitions[keyless] = turns % partition_count
            self._turn += keyless.size
        return partitions

    def _hashes(self, keys: pa.Array) -> npt.NDArray[np.uint32]:
        if self._key_hash is KeyHash.CRC32:
            return crc32_column(keys)
        return murmur2_column(keys) & np.uint32(0x7FFFFFFF)

    def _keyless(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        if self._key_hash is KeyHash.CRC32:
            missing = pc.equal(pc.fill_null(pc.binary_length(keys), 0), 0)
        elif keys.null_count:
            missing = keys.is_null()
        else:
            return np.empty(0, np.int64)
        return np.flatnonzero(missing.to_numpy(zero_copy_only=False))

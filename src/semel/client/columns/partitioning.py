"""Which partition each row of a column of keys goes to."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semel.client.columns.crc32 import crc32_column
from semel.client.columns.murmur import murmur2_column
from semel.client.producing.partitioners import KeyHash


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

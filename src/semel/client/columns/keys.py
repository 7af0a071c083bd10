"""A column of keys as bytes that numpy can look into."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semel.client.columns.varints import Bytes, Numbers

WORD_SIZE = 4


class KeyBytes(NamedTuple):
    content: Bytes
    """The keys, one behind the other, with room for one word more."""
    begins: Numbers
    sizes: Numbers


def key_bytes(keys: pa.Array) -> KeyBytes:
    count = len(keys)
    _, offsets_buffer, values = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + count + 1]
    low, high = (int(offsets[0]), int(offsets[-1])) if count else (0, 0)
    content = np.zeros(high - low + WORD_SIZE, np.uint8)
    if high > low:
        content[: high - low] = np.frombuffer(values, np.uint8)[low:high]
    return KeyBytes(content, offsets[:-1].astype(np.int64) - low, np.diff(offsets).astype(np.int64))

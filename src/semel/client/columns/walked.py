"""Records of any shape: found one by one, read all at once."""

from collections.abc import Sequence

import pyarrow as pa

from semel.client.columns.fields import gather, joined, read_fields
from semel.client.columns.headers import read_headers
from semel.client.columns.varints import Bytes, Numbers
from semel.types import Buffer


class WalkedRecords:
    def __init__(
        self, plain: Buffer, buffer: Bytes, bounds: Sequence[tuple[Numbers, Numbers]]
    ) -> None:
        """`bounds` are begins and ends of the records of each batch."""
        self._plain = pa.py_buffer(plain)
        self._buffer = buffer
        # Batch by batch, so that what is read once for each field stays in the processor's cache.
        self._fields = joined([read_fields(buffer, *each) for each in bounds])
        self.count = self._fields.ends.size
        self.timestamp_deltas_ms = self._fields.timestamp_deltas_ms
        self.offset_deltas = self._fields.offset_deltas

    def keys(self) -> pa.Array:
        return gather(self._plain, [self._fields.keys])[0]

    def values(self) -> pa.Array:
        return gather(self._plain, [self._fields.values])[0]

    def headers(self) -> pa.Array:
        return read_headers(self._plain, self._buffer, self._fields)

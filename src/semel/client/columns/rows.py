"""Rows to be written, in the types that encoding takes, from the columns that users have."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semel.client.columns.headers import as_binary, as_numbers
from semel.client.columns.varints import Numbers
from semel.records.batch import NO_TIMESTAMP_MS


class Rows(NamedTuple):
    """What is to be encoded; the columns have the same length."""

    keys: pa.Array
    """Binary, like the values; null for a record without key."""
    values: pa.Array
    timestamps_ms: Numbers
    headers: pa.Array | None = None
    """A list of structs of key and value, or None if no record has any."""

    def take(self, places: Numbers) -> "Rows":
        chosen = pa.array(places)
        return Rows(
            self.keys.take(chosen),
            self.values.take(chosen),
            self.timestamps_ms[places],
            None if self.headers is None else self.headers.take(chosen),
        )

    def slice(self, begin: int, end: int) -> "Rows":
        return Rows(
            self.keys.slice(begin, end - begin),
            self.values.slice(begin, end - begin),
            self.timestamps_ms[begin:end],
            None if self.headers is None else self.headers.slice(begin, end - begin),
        )


def rows_from(
    keys: pa.Array | None,
    values: pa.Array,
    timestamps: pa.Array | None = None,
    headers: pa.Array | None = None,
    *,
    now_ms: int = NO_TIMESTAMP_MS,
) -> Rows:
    """Rows of columns as users have them: text or bytes, any unit of time, gaps in the times."""
    count = len(values)
    if timestamps is None:
        timestamps_ms = np.full(count, now_ms, np.int64)
    else:
        if pa.types.is_timestamp(timestamps.type):
            timestamps = timestamps.cast(pa.timestamp("ms", timestamps.type.tz), safe=False).view(
                pa.int64()
            )
        timestamps_ms = as_numbers(timestamps.cast(pa.int64()), now_ms)
    return Rows(
        pa.nulls(count, pa.binary()) if keys is None else as_binary(keys),
        as_binary(values),
        timestamps_ms,
        headers,
    )

"""The columns of a topic: their names and types, the same as in Spark's Kafka source."""

from collections.abc import Collection

import pyarrow as pa

from semel.client.columns.headers import HEADERS
from semel.errors import ConfigError

FIELDS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}

COLUMNS = tuple(name for name in FIELDS if name != "headers")
"""What is read unless asked otherwise."""

CREATE_TIME = 0
LOG_APPEND_TIME = 1


def schema_of(columns: Collection[str] = COLUMNS) -> pa.Schema:
    unknown = [name for name in columns if name not in FIELDS]
    if unknown:
        raise ConfigError(f"there is no column {unknown[0]!r}: there are {', '.join(FIELDS)}")
    return pa.schema([pa.field(name, FIELDS[name]) for name in columns])

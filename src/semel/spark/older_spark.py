"""The source and the sink of a stream as PySpark 4.0 and 4.1 call them."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import InputPartition, WriterCommitMessage
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from semel.errors import ConfigError
from semel.spark.lookup import look_up
from semel.spark.offsets import reached_from_json, to_json
from semel.spark.options import Options
from semel.spark.rows import WRITTEN_COLUMNS
from semel.spark.sentences import SentenceFirst
from semel.spark.sink_settings import SinkSettings
from semel.spark.stream_reader import StreamReader
from semel.spark.writers import StreamWriter

_ROWS_MAX = 10_000
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ARROW_TYPES: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    TimestampType: pa.timestamp("us", "UTC"),
}


def refuse_limits(options: Options, names: Iterable[str]) -> None:
    for name in names:
        if name in options:
            raise ConfigError(
                f"option {name} needs PySpark 4.2: before it, Spark lets no source in Python say "
                f"how much a micro-batch reads"
            )


class UnlimitedReader(StreamReader):
    """Asked where a batch ends and not told where it begins, which is looked at afterwards."""

    @SentenceFirst()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        self._latest = look_up(self._settings, self._ends)
        return to_json(self._latest)

    @SentenceFirst()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._kept(reached_from_json(start), reached_from_json(end))
        return super().partitions(start, end)


class RowWriter(StreamWriter):
    """Given rows, one Python object each, which costs most of the time."""

    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        super().__init__(settings, schema)
        self._schema = schema

    @SentenceFirst()
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return super().write(as_batches(iterator, self._schema))


def as_batches(rows: Iterator[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The columns that are written, which have been looked at."""
    fields = [field for field in enumerate(schema.fields) if field[1].name in WRITTEN_COLUMNS]
    names = [field.name for _, field in fields]
    while some := list(islice(rows, _ROWS_MAX)):
        columns = [_column([row[number] for row in some], each) for number, each in fields]
        yield pa.RecordBatch.from_arrays(columns, names)


def _column(values: list[Any], field: StructField) -> pa.Array:
    kind = field.dataType
    if isinstance(kind, TimestampType):
        # Rows have the time of this machine's zone.
        values = [None if each is None else kind.toInternal(each) for each in values]
    return pa.array(values, _ARROW_TYPES.get(type(kind), _HEADERS))

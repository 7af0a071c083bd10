"""`format("semel")`: what Spark asks for a reader or a writer of a topic."""

import logging

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from semel.errors import ConfigError, SemelError
from semel.spark.batch_reader import BatchReader
from semel.spark.bounds import batch_end, batch_start, check_bounds, stream_start
from semel.spark.interface import GIVES_ARROW, LIMITS_BATCHES, DataSourceStreamArrowWriter
from semel.spark.sentences import SentenceFirst, is_of_spark
from semel.spark.sink_settings import sink_options, sink_settings
from semel.spark.source_settings import source_options, source_settings
from semel.spark.stream_reader import RefusedReader, StreamReader
from semel.spark.writers import BatchWriter, StreamWriter

_log = logging.getLogger(__name__)

_LIMITS_OF_STREAMS = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "maxTriggerDelay",
)
_KEEPS_READER = "sql.streaming.python_streaming_source_runner"
"""The process at the driver that has the reader of a stream for as long as it runs."""
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}


class SemelSource(DataSource):
    """Columns and options of Spark's Kafka source; committed records by default."""

    @classmethod
    def name(cls) -> str:
        return "semel"

    @SentenceFirst()
    def schema(self) -> StructType:
        options = source_options(self.options)
        settings = source_settings(options)
        check_bounds(options)
        return StructType([StructField(name, _TYPES[name]) for name in settings.columns])

    @SentenceFirst()
    def reader(self, schema: StructType) -> DataSourceReader:
        options = source_options(self.options)
        settings = source_settings(options)._replace(columns=_named_columns(schema))
        for name in _LIMITS_OF_STREAMS:
            if name in options:
                _log.warning("option %s is for streams: a batch query reads all at once", name)
        start, end = batch_start(options), batch_end(options)
        options.tell_unread()
        return BatchReader(settings, start, end)

    @SentenceFirst()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        try:
            return self._stream_reader(schema)
        except SemelError as error:
            if not is_of_spark(_KEEPS_READER):
                raise
            return RefusedReader(error)

    def _stream_reader(self, schema: StructType) -> StreamReader:
        options = source_options(self.options)
        settings = source_settings(options)._replace(columns=_named_columns(schema))
        start = stream_start(options)
        options.tell_unread()
        if LIMITS_BATCHES:
            return StreamReader(settings, start)
        from semel.spark.older_spark import UnlimitedReader, refuse_limits

        refuse_limits(options, _LIMITS_OF_STREAMS)
        return UnlimitedReader(settings, start)

    @SentenceFirst()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options = sink_options(self.options)
        if overwrite:
            raise ConfigError("a topic cannot be overwritten: use mode('append')")
        batch_id = options.number_or_none("batchId", least=0)
        if batch_id is not None and "transactionalId" not in options:
            raise ConfigError("option batchId needs transactionalId: a number of whose batches?")
        settings = sink_settings(options)
        options.tell_unread()
        return BatchWriter(settings, schema, batch_id)

    @SentenceFirst()
    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        options = sink_options(self.options)
        if "batchId" in options:
            raise ConfigError("option batchId is for batch jobs: a stream numbers its batches")
        settings = sink_settings(options)
        options.tell_unread()
        if GIVES_ARROW:
            return StreamWriter(settings, schema)
        from semel.spark.older_spark import RowWriter

        return RowWriter(settings, schema)


def _named_columns(schema: StructType) -> tuple[str, ...]:
    """All of them, or those that a job has named by `schema(...)`, which spares Spark the rest."""
    if not schema.fields:
        raise ConfigError("schema() names no column: leave it out to read all of them")
    for field in schema.fields:
        kind = _TYPES.get(field.name)
        if not field.nullable:
            raise ConfigError(f"schema() has {field.name} not null: any column of a topic may be")
        if kind is None or field.dataType.simpleString() != kind.simpleString():
            known = ", ".join(f"{name} {each.simpleString()}" for name, each in _TYPES.items())
            raise ConfigError(
                f"schema() has {field.name} {field.dataType.simpleString()}: "
                f"it may name columns of a topic, which are {known}"
            )
    return tuple(schema.names)

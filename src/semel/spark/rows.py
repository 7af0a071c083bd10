"""The rows of a data frame as record batches: columns checked, rows placed, batches encoded."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from semel.client.columns.encode import BATCH_SIZE_MAX, EncodedBatch, encode, rows_from
from semel.client.columns.partitioning import ColumnPartitioner
from semel.client.producing.partitioners import KeyHash
from semel.errors import ConfigError
from semel.records.compression import Compression
from semel.spelling import noun
from semel.types import TopicPartition

_log = logging.getLogger(__name__)

WRITTEN_COLUMNS = ("value", "key", "headers", "timestamp", "partition", "topic")
_PASSED_OVER = {"offset", "timestampType"}
"""What a topic that was read has besides: it can be written as it is, and the log says these."""

# Spark hands over ten thousand rows at a time, which is little for each of many partitions.
_ROWS_SIZE_MIN = 8 * 1024 * 1024


class Destination(NamedTuple):
    """Where rows go, and how they are packed."""

    topic: str | None
    """None: the column says it for each row."""
    partition_counts: Mapping[str, int]
    """One snapshot for all tasks of a micro-batch, so that a key has one partition in it.

    Topics that a task creates are not in it.
    """
    compression: Compression
    batch_size_max: int = BATCH_SIZE_MAX
    key_hash: KeyHash = KeyHash.MURMUR2


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse a data frame that cannot be written, with the column that is missing or wrong."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise ConfigError(
            f"column value is missing: there are {', '.join(types) or 'no columns'}; call the one "
            f"that is to be written value, as in selectExpr('... AS value')"
        )
    if topic is None and "topic" not in types:
        raise ConfigError(
            "option topic is missing, and there is no column topic: one of them says where rows go"
        )
    text_or_bytes = (StringType, BinaryType)
    _check_type(types, "value", text_or_bytes, "string or binary")
    _check_type(types, "key", text_or_bytes, "string or binary")
    _check_type(types, "partition", (IntegerType,), "int")
    if topic is None:
        _check_type(types, "topic", (StringType,), "string")
    headers = types.get("headers")
    if headers is not None and not _are_headers(headers):
        raise ConfigError(
            f"column headers is {headers.simpleString()}: "
            f"it has to be array<struct<key:string,value:binary>>"
        )
    time_types = (TimestampType, LongType)
    _check_type(types, "timestamp", time_types, "timestamp, or bigint of milliseconds")
    _name_left_out(tuple(name for name in types if name not in {*WRITTEN_COLUMNS, *_PASSED_OVER}))


_named: set[tuple[str, ...]] = set()


def _name_left_out(columns: tuple[str, ...]) -> None:
    """Once in a process, as a stream is checked with each micro-batch."""
    if columns and columns not in _named:
        _named.add(columns)
        *others, last = WRITTEN_COLUMNS
        _log.warning(
            "columns %s are not written: a record has %s and %s",
            ", ".join(columns),
            ", ".join(others),
            last,
        )


def _check_type(
    types: Mapping[str, DataType], name: str, allowed: tuple[type[DataType], ...], words: str
) -> None:
    found = types.get(name)
    if found is not None and not isinstance(found, allowed):
        raise ConfigError(f"column {name} is {found.simpleString()}: it has to be {words}")


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    parts = [(field.name, type(field.dataType)) for field in found.elementType.fields]
    return parts == [("key", StringType), ("value", BinaryType)]


class Encoder:
    """Turns the rows of one task into batches, some megabytes at a time."""

    def __init__(
        self,
        destination: Destination,
        now_ms: int,
        task_number: int,
        count_of: Callable[[str], int],
    ) -> None:
        """`count_of` tells the partitions of a topic that nobody knew when the batch began."""
        self._destination = destination
        self._partition_counts = dict(destination.partition_counts)
        self._count_of = count_of
        self._now_ms = now_ms
        # Tasks begin at different partitions, so that few rows without keys are spread too.
        self._partitioner = ColumnPartitioner(destination.key_hash, task_number)

    def encode_all(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[TopicPartition, EncodedBatch]]:
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= _ROWS_SIZE_MIN:
                yield from self._encode(waiting)
                waiting, size = [], 0
        yield from self._encode(waiting)

    def _encode(
        self, batches: list[pa.RecordBatch]
    ) -> Iterator[tuple[TopicPartition, EncodedBatch]]:
        if not any(batch.num_rows for batch in batches):
            return
        table = pa.Table.from_batches(batches).combine_chunks()
        for topic, rows in self._by_topic(table):
            yield from self._encode_topic(topic, rows)

    def _by_topic(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        if self._destination.topic is not None:
            yield self._destination.topic, table
            return
        topics = table.column("topic").combine_chunks()
        if topics.null_count:
            raise ConfigError("column topic is null in a row, and there is no option topic")
        for topic in pc.unique(topics).to_pylist():
            yield topic, table.filter(pc.equal(topics, topic)).combine_chunks()

    def _encode_topic(
        self, topic: str, table: pa.Table
    ) -> Iterator[tuple[TopicPartition, EncodedBatch]]:
        columns = {name: _only_chunk(table, name) for name in table.column_names}
        rows = rows_from(
            columns.get("key"),
            columns["value"],
            columns.get("timestamp"),
            columns.get("headers"),
            now_ms=self._now_ms,
        )
        partitions = self._partitions(topic, rows.keys, columns.get("partition"))
        for batch in encode(
            rows,
            partitions,
            compression=self._destination.compression,
            batch_size_max=self._destination.batch_size_max,
        ):
            yield TopicPartition(topic, batch.partition), batch

    def _partitions(
        self, topic: str, keys: pa.Array, wanted: pa.Array | None
    ) -> npt.NDArray[np.int32]:
        if topic not in self._partition_counts:
            self._partition_counts[topic] = self._count_of(topic)
        count = self._partition_counts[topic]
        placed = self._partitioner.partitions_of(keys, count)
        if wanted is None or wanted.null_count == len(wanted):
            return placed
        named = wanted.fill_null(-1).to_numpy()
        outside = named[(named >= count) | (named < -1)]
        if outside.size:
            raise ConfigError(
                f"column partition is {outside[0]} in a row: topic {topic} has {count} "
                f"{noun(count, 'partition')}"
            )
        return np.where(named >= 0, named, placed).astype(np.int32)


def _only_chunk(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

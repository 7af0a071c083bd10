"""The two stages of the sink for volume: rows into batches, and batches into the log.

The first stage encodes, as the default sink does. Its batches, not the rows, are shuffled, so that
those of one partition come to one task. The second stage writes them under the producer id and
epoch of the driver's transaction; Spark starts its tasks all together or not at all.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from semel.client.blocking import shared
from semel.client.identity import Identity
from semel.client.session import TransactionalSession
from semel.errors import SemelError
from semel.spark.rows import Encoder, Place
from semel.spark.sink_settings import SinkSettings
from semel.spark.worker_process import settle
from semel.types import TopicPartition
from semel.world import SystemClock

ENCODED = "owner int, topic string, partition int, content binary"
WRITTEN = "topic string, partition int, recordCount long, taskAttemptId long, stageId int"

_ENCODED_COLUMNS = pa.schema(
    [
        ("owner", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("content", pa.binary()),
    ]
)
_WRITTEN_COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("recordCount", pa.int64()),
        ("taskAttemptId", pa.int64()),
        ("stageId", pa.int32()),
    ]
)


class TaskRetried(SemelError):
    """A task of the writing stage was started a second time within one transaction."""


class Encoding(NamedTuple):
    """The first stage."""

    place: Place
    task_count: int
    """Of the second stage."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        context = TaskContext.get()
        assert context is not None, "this runs in a task"
        firsts = self._first_owners()
        encoder = Encoder(self.place, SystemClock().now_ms(), context.partitionId())
        for (topic, partition), batch in encoder.encode_all(batches):
            owner = (firsts[topic] + partition) % self.task_count
            row = [[owner], [topic], [partition], [batch.content]]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(each, kind.type)
                    for each, kind in zip(row, _ENCODED_COLUMNS, strict=True)
                ],
                schema=_ENCODED_COLUMNS,
            )

    def _first_owners(self) -> dict[str, int]:
        """Partitions are dealt out in turn, each topic going on where the one before ended."""
        counts = sorted(self.place.partition_counts.items())
        totals = accumulate((count for _, count in counts), initial=0)
        return {topic: total for (topic, _), total in zip(counts, totals, strict=False)}


class Writing(NamedTuple):
    """The second stage, a part of the transaction that the driver has opened."""

    settings: SinkSettings
    transactional_id: str
    identity: Identity

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        context = TaskContext.get()
        assert context is not None, "this runs in a task"
        if context.attemptNumber() > 0:
            # It would send sequence 0 again, which can be taken for a repetition though the rows
            # are others.
            raise TaskRetried(
                f"task {context.partitionId()} of a transaction was started again: "
                f"the driver has to begin the batch anew"
            )
        connected = shared(self.settings.client)
        session = TransactionalSession(connected.cluster, self.transactional_id)
        session.join(self.identity)
        counts: dict[TopicPartition, int] = {}
        for batch in batches:
            for delivery in connected.run(session.write(_contents(batch))):
                place = delivery.partition
                counts[place] = counts.get(place, 0) + delivery.record_count
        yield _written(counts, context)


def _contents(batch: pa.RecordBatch) -> list[tuple[TopicPartition, memoryview]]:
    topics = batch.column("topic").to_pylist()
    partitions = batch.column("partition").to_pylist()
    contents = batch.column("content")
    return [
        (TopicPartition(topic, partition), memoryview(contents[number].as_buffer()))
        for number, (topic, partition) in enumerate(zip(topics, partitions, strict=True))
    ]


def _written(counts: dict[TopicPartition, int], context: TaskContext) -> pa.RecordBatch:
    rows = [
        (*place, count, context.taskAttemptId(), context.stageId())
        for place, count in counts.items()
    ]
    return _rows(rows, _WRITTEN_COLUMNS)


def _rows(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(each, kind.type) for each, kind in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

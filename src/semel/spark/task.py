"""What a task knows of the query it works for, and the batches it sends to the driver."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from semel.errors import ConfigError, SemelError
from semel.spark.marker import NO_QUERY, BatchMarker, digest_of
from semel.spark.offsets import Offsets
from semel.spark.rows import Destination, Encoder
from semel.spark.sink_settings import SinkSettings
from semel.spark.targets import partition_count
from semel.spark.worker_process import begin_task
from semel.types import TopicPartition
from semel.world import SystemClock

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"

# These two are of one execution of a micro-batch, and of all that its function does.
_APPLICATION_ID = "spark.app.id"
_EXECUTION_ID = "spark.sql.execution.root.id"

# Spark sets it for the session in which the batches of a stream run, and for no other, and hands
# the settings of a session to every task that works for one of its data frames.
_OF_STREAMS = "spark.sql.streaming.internal.stateStore.partitions"

# Of a micro-batch: its name, if it has one, comes before the line with its id.
_DESCRIPTION = "spark.job.description"

PROPERTIES = (
    _QUERY_ID,
    _BATCH_ID,
    _RUN_ID,
    _APPLICATION_ID,
    _EXECUTION_ID,
    _OF_STREAMS,
    _DESCRIPTION,
)
"""The local properties of Spark that say where a task, or a call of a function, comes from."""


class BatchTooLarge(SemelError):
    """What one micro-batch encodes to does not fit through the driver."""


class UnknownBatch(ConfigError):
    """Rows of a stream are written by whoever does not know which of its batches they are."""


class Origin(NamedTuple):
    """The run of a query that a task belongs to; empty outside of streaming queries."""

    query_id: str
    run_id: str
    """Where a function has named its jobs itself, it stands for one execution of a batch."""
    batch_id: int | None = None
    is_of_stream: bool = False
    query_name: str = ""
    """Empty if it has none, or a function has described its jobs itself."""

    def check_batch(self) -> None:
        """Refuse rows of a stream's batch where it is not known which that is."""
        if self.is_of_stream and self.batch_id is None:
            raise UnknownBatch(
                "this data frame belongs to a micro-batch, and it is not known to which: Spark "
                "tells it in the thread that runs the function of foreachBatch, and neither in "
                "other threads nor over Spark Connect, so that a replay would be written twice; "
                "wrap what a thread runs in pyspark.inheritable_thread_target, write with "
                "semel.spark.exactly_once, or give a transactionalId of the query's own and "
                "batchId; if it may be doubled, set delivery to at-least-once"
            )

    def marker(self, batch_id: int, consumed: Offsets | None = None) -> BatchMarker:
        return BatchMarker(
            self.query_id or NO_QUERY,
            batch_id,
            self.run_id,
            digest_of(consumed),
            self.query_name,
        )


class EncodedRows(WriterCommitMessage):
    """The rows of one task, as they go into the log except for their producer."""

    def __init__(
        self, origin: Origin, batches: Sequence[tuple[TopicPartition, bytes]], size: int
    ) -> None:
        self.origin = origin
        self.batches = batches
        self.size = size


def origin_from(properties: Mapping[str, str | None]) -> Origin:
    query_id = properties.get(_QUERY_ID) or ""
    batch_id = properties.get(_BATCH_ID)
    return Origin(
        query_id,
        _run_in(properties) if query_id else "",
        int(batch_id) if query_id and batch_id else None,
        properties.get(_OF_STREAMS) is not None,
        _name_in(properties.get(_DESCRIPTION) or "", query_id) if query_id else "",
    )


def origin_of_task() -> Origin:
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    return origin_from({name: context.getLocalProperty(name) for name in PROPERTIES})


def _name_in(description: str, query_id: str) -> str:
    name, separator, _ = description.partition(f"id = {query_id}")
    return name.removesuffix("<br/>").strip() if separator else ""


def _run_in(properties: Mapping[str, str | None]) -> str:
    group = properties.get(_RUN_ID) or ""
    if _is_uuid(group):
        return group
    # A job group of the user's own: it may be the same in every run.
    application_id, execution_id = properties.get(_APPLICATION_ID), properties.get(_EXECUTION_ID)
    return f"{application_id}/{execution_id}" if application_id and execution_id else ""


def encode_task(
    settings: SinkSettings, destination: Destination, batches: Iterable[pa.RecordBatch]
) -> EncodedRows:
    begin_task()
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    encoder = Encoder(
        destination,
        SystemClock().wall_ms(),
        context.partitionId(),
        lambda topic: partition_count(settings.client, topic),
    )
    encoded: list[tuple[TopicPartition, bytes]] = []
    size = 0
    for partition, batch in encoder.encode_all(batches):
        encoded.append((partition, batch.content))
        size += len(batch.content)
        check_size(size, settings.encoded_size_max)
    return EncodedRows(origin_of_task(), encoded, size)


def check_size(size: int, size_max: int) -> None:
    if size > size_max:
        raise BatchTooLarge(
            f"the rows of one micro-batch encode to {size} bytes and more, over the limit of "
            f"{size_max} that goes through the driver: lower maxOffsetsPerTrigger or "
            f"maxBytesPerTrigger of the source, write with semel.spark.exactly_once, or raise "
            f"maxEncodedBytes (and spark.driver.maxResultSize with it)"
        )


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True

"""What a task knows of the query it works for, and the batches it sends to the driver."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from semel.errors import SemelError
from semel.spark.marker import NO_QUERY, Marker, digest_of
from semel.spark.offsets import Offsets
from semel.spark.rows import Encoder, Place
from semel.spark.sink_settings import SinkSettings
from semel.spark.targets import partition_count
from semel.spark.worker_process import settle
from semel.types import TopicPartition
from semel.world import SystemClock

QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"


class BatchTooLarge(SemelError):
    """What one micro-batch encodes to does not fit through the driver."""


class Origin(NamedTuple):
    """The run of a query that a task belongs to; empty outside of streaming queries."""

    query_id: str
    run_id: str

    def marker(self, batch_id: int, consumed: Offsets | None = None) -> Marker:
        return Marker(self.query_id or NO_QUERY, batch_id, self.run_id, digest_of(consumed))


class EncodedRows(WriterCommitMessage):
    """The rows of one task, as they go into the log except for their producer."""

    def __init__(
        self, origin: Origin, batches: Sequence[tuple[TopicPartition, bytes]], size: int
    ) -> None:
        self.origin = origin
        self.batches = batches
        self.size = size


def origin_from(properties: Mapping[str, str | None]) -> Origin:
    run_id = properties.get(RUN_ID) or ""
    if not properties.get(QUERY_ID) or not _is_uuid(run_id):
        # A job group of the user's own: it may be the same in every run.
        run_id = ""
    return Origin(properties.get(QUERY_ID) or "", run_id)


def origin_of(context: TaskContext) -> Origin:
    return origin_from({name: context.getLocalProperty(name) for name in (QUERY_ID, RUN_ID)})


def encode_task(
    settings: SinkSettings, place: Place, batches: Iterable[pa.RecordBatch]
) -> EncodedRows:
    settle()
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    encoder = Encoder(
        place,
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
    return EncodedRows(origin_of(context), encoded, size)


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

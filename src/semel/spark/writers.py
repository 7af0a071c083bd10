"""The default sink: tasks encode, and the driver writes all of it in one short transaction.

Nothing reaches the log before the driver's commit, so that retries of tasks and speculation are
harmless, and there is never anything to abort.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from semel.client.blocking import shared
from semel.errors import ConfigError
from semel.spark.checkpoint import consumed_offsets
from semel.spark.committing import commit_batch
from semel.spark.marker import NO_QUERY, Marker
from semel.spark.rows import check_columns
from semel.spark.sink_settings import SinkSettings
from semel.spark.targets import placed
from semel.spark.task import EncodedRows, check_size, encode_task
from semel.spark.worker_process import settle
from semel.types import TopicPartition
from semel.world import SystemRandomness


class StreamWriter(DataSourceStreamArrowWriter):
    """Made twice for each micro-batch: for the tasks, and anew at the driver for the commit."""

    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        check_columns(schema, settings.topic)
        self._settings = settings
        # Here and not in the tasks, so that all of them count the partitions alike.
        self._place = placed(settings)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return encode_task(self._settings, self._place, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        settle()
        tasks = _all_tasks(messages, self._settings.encoded_size_max)
        if not tasks:
            # Without a task there is neither a row nor a word on whose batch it is.
            return
        settings = self._settings
        consumed = None
        if settings.publishes_offsets and settings.checkpoint is not None:
            consumed = consumed_offsets(settings.checkpoint, batchId)
        batch = tasks[0].origin.marker(batchId, consumed)
        connected = shared(settings.client)
        connected.run(
            commit_batch(
                connected.cluster,
                settings,
                settings.transactional_id_of(batch.query_id),
                batch,
                _in_order(tasks),
                consumed,
            )
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is open before the commit, and a failed one has ended its transaction."""


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: one transaction, and exactly once if the job gives its batches numbers."""

    def __init__(self, settings: SinkSettings, schema: StructType, batch_id: int | None) -> None:
        check_columns(schema, settings.topic)
        self._batch_id = batch_id
        self._settings = (
            settings if batch_id is not None else settings._replace(checks_marker=False)
        )
        if self._settings.checks_marker and not (settings.topic or settings.marker_topic):
            # Two frames with one number for other topics would be taken for one batch.
            raise ConfigError(
                "option markerTopic is missing: topics come from a column, so say with which of "
                "them batchId is to be kept"
            )
        self._id = (
            settings.transactional_id or f"semel-write-{SystemRandomness().token_bytes(8).hex()}"
        )
        self._place = placed(settings)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return encode_task(self._settings, self._place, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        tasks = _all_tasks(messages, self._settings.encoded_size_max)
        batch_id = self._batch_id or 0
        batch = tasks[0].origin.marker(batch_id) if tasks else Marker(NO_QUERY, batch_id)
        connected = shared(self._settings.client)
        connected.run(
            commit_batch(connected.cluster, self._settings, self._id, batch, _in_order(tasks))
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is open before the commit."""


def _all_tasks(messages: Sequence[WriterCommitMessage | None], size_max: int) -> list[EncodedRows]:
    tasks = []
    for message in messages:
        assert isinstance(message, EncodedRows), "Spark commits when every task has succeeded"
        tasks.append(message)
    check_size(sum(task.size for task in tasks), size_max)
    return tasks


def _in_order(tasks: Sequence[EncodedRows]) -> Iterator[tuple[TopicPartition, bytes]]:
    for task in tasks:
        yield from task.batches

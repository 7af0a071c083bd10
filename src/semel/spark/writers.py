"""The default sink: tasks encode, and the driver writes all of it in one short transaction.

Nothing reaches the log before the driver's commit, so that retries of tasks and speculation are
harmless, and there is never anything to abort.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from semel.client.cluster.blocking import shared
from semel.errors import ConfigError
from semel.spark.checkpoint import consumed_offsets
from semel.spark.committing import commit_batch
from semel.spark.interface import DataSourceStreamArrowWriter
from semel.spark.marker import BatchMarker
from semel.spark.offsets import Offsets
from semel.spark.rows import check_columns
from semel.spark.sentences import SentenceFirst
from semel.spark.sink_settings import SinkSettings
from semel.spark.targets import destination_of
from semel.spark.task import EncodedRows, Origin, check_size, encode_task, origin_of_task
from semel.spark.worker_process import begin_task
from semel.types import TopicPartition
from semel.world import SystemRandomness

_NO_NUMBER = 0
"""Of a batch that is written without looking at any."""


class StreamWriter(DataSourceStreamArrowWriter):
    """Made twice for each micro-batch: for the tasks, and anew at the driver for the commit."""

    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        check_columns(schema, settings.topic)
        self._settings = settings
        # Here and not in the tasks, so that all of them count the partitions alike.
        self._destination = destination_of(settings)

    @SentenceFirst()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return encode_task(self._settings, self._destination, iterator)

    @SentenceFirst()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        begin_task()
        tasks = _all_tasks(messages, self._settings.encoded_size_max)
        if not tasks:
            # Without a task there is neither a row nor a word on whose batch it is.
            return
        consumed = _consumed(self._settings, batchId)
        batch = tasks[0].origin.marker(batchId, consumed)
        transactional_id = self._settings.transactional_id_of(batch.query_id)
        _commit(self._settings, transactional_id, batch, tasks, consumed)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing is open before the commit, and a failed one has ended its transaction."""


class BatchWriter(DataSourceArrowWriter):
    """`df.write`: one transaction, and exactly once if its batch has a number.

    Within `foreachBatch` the tasks know of which batch they are; elsewhere a job may say it.
    """

    def __init__(self, settings: SinkSettings, schema: StructType, batch_id: int | None) -> None:
        check_columns(schema, settings.topic)
        is_numbered = batch_id is not None and settings.checks_marker
        if is_numbered and not (settings.topic or settings.marker_topic):
            # Two frames with one number for other topics would be taken for one batch.
            raise ConfigError(
                "option markerTopic is missing: topics come from a column, so say with which of "
                "them batchId is to be kept"
            )
        self._settings = settings
        self._batch_id = batch_id
        self._destination = destination_of(
            settings if is_numbered else settings._replace(checks_marker=False)
        )

    @SentenceFirst()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._settings.checks_marker and self._batch_id is None:
            origin_of_task().check_batch()
        return encode_task(self._settings, self._destination, iterator)

    @SentenceFirst()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        begin_task()
        tasks = _all_tasks(messages, self._settings.encoded_size_max)
        if not tasks:
            return
        if self._batch_id is not None:
            assert self._settings.transactional_id is not None, "a number of its batches"
            batch = tasks[0].origin.marker(self._batch_id)
            _commit(self._settings, self._settings.transactional_id, batch, tasks)
        elif tasks[0].origin.batch_id is not None:
            self._commit_within_query(tasks[0].origin, tasks[0].origin.batch_id, tasks)
        else:
            settings = self._settings._replace(checks_marker=False)
            any_id = f"semel-write-{SystemRandomness().token_bytes(8).hex()}"
            batch = tasks[0].origin.marker(_NO_NUMBER)
            _commit(settings, settings.transactional_id or any_id, batch, tasks)

    def _commit_within_query(
        self, origin: Origin, batch_id: int, tasks: Sequence[EncodedRows]
    ) -> None:
        """As a stream does, under the name of the topic: a batch may write to several."""
        settings = self._settings
        marker_topic = settings.marker_partition.topic
        if settings.checks_marker and marker_topic not in self._destination.partition_counts:
            connected = shared(settings.client)
            connected.run(connected.cluster.topic_to_write(marker_topic))
        consumed = _consumed(settings, batch_id)
        batch = origin.marker(batch_id, consumed)
        name = settings.topic or marker_topic
        transactional_id = settings.transactional_id_of(batch.query_id, name)
        _commit(settings, transactional_id, batch, tasks, consumed)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing is open before the commit."""


def _consumed(settings: SinkSettings, batch_id: int) -> Offsets | None:
    """What the batch of a stream has read, where the checkpoint is known and can be read here."""
    if not settings.publishes_offsets or settings.checkpoint is None:
        return None
    return consumed_offsets(settings.checkpoint, batch_id)


def _commit(
    settings: SinkSettings,
    transactional_id: str,
    batch: BatchMarker,
    tasks: Sequence[EncodedRows],
    consumed: Offsets | None = None,
) -> None:
    connected = shared(settings.client)
    encoded = _in_order(tasks)
    connected.run(
        commit_batch(connected.cluster, settings, transactional_id, batch, encoded, consumed)
    )


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

"""One range of a partition, read by a task as Arrow batches."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from semel.client.cluster.blocking import shared
from semel.client.columns.ranges import RecordsLost, fetch_regions
from semel.spark import data_loss
from semel.spark.offsets import OffsetRange
from semel.spark.sentences import SentenceFirst
from semel.spark.source_settings import SourceSettings
from semel.spark.subscription import QuerySubscription
from semel.spark.worker_process import begin_task

# Spark's own readers cut at ten thousand rows; larger batches cost less per row, and some tens
# of thousands of common records still fit into a processor's cache.
_ROWS_MAX = 32_768


class RangePartition(InputPartition):
    def __init__(self, offsets: OffsetRange, topic_id: str | None) -> None:
        super().__init__(tuple(offsets))
        self.range = offsets
        self.topic_id = topic_id
        """Of the topic that was planned; None if it is not known."""

    def __repr__(self) -> str:
        return f"{self.range.partition} from {self.range.start} to {self.range.end}"


def read_range(settings: SourceSettings, wanted: RangePartition) -> Iterator[pa.RecordBatch]:
    begin_task()
    with SentenceFirst():
        yield from _checked(settings, wanted)


def _checked(settings: SourceSettings, wanted: RangePartition) -> Iterator[pa.RecordBatch]:
    """Records of the topic that was planned, and of no other under its name."""
    remade = data_loss.remade_within_a_batch(wanted.range)
    if _is_remade(settings, wanted):
        data_loss.report(remade, fails=settings.fails_on_data_loss)
        return
    try:
        yield from _read(settings, wanted.range)
    except RecordsLost as lost:
        data_loss.report(str(lost), fails=True)
    if _is_remade(settings, wanted):
        # Records of either topic may have been handed out, so that all of them are taken back.
        data_loss.report(remade, fails=True)


def _is_remade(settings: SourceSettings, wanted: RangePartition) -> bool:
    """A broker is asked for records by the name of their topic, whichever has it by then."""
    if wanted.topic_id is None:
        return False
    partition = wanted.range.partition
    connected = shared(settings.task_client)
    found = connected.run(
        QuerySubscription(topics=(partition.topic,)).find_remaining(connected.cluster)
    )
    return found.topic_ids.get(partition.topic, wanted.topic_id) != wanted.topic_id


def _read(settings: SourceSettings, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    connected = shared(settings.task_client)
    regions = fetch_regions(
        connected.cluster,
        wanted.partition,
        wanted.start,
        wanted.end,
        isolation=settings.isolation,
        fetch_size_max=settings.fetch_size,
        accepts_loss=not settings.fails_on_data_loss,
    )
    for region in connected.iterate(regions):
        # Decoded here and not in the loop's thread, which takes in the next region meanwhile.
        decoded = region.decode(settings.columns)
        for begin in range(0, decoded.num_rows, _ROWS_MAX):
            yield decoded.slice(begin, _ROWS_MAX)

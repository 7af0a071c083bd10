"""One range of a partition, read by a task as Arrow batches."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from semel.client.blocking import shared
from semel.client.columns.ranges import RecordsLost, fetch_regions
from semel.spark import data_loss
from semel.spark.offsets import OffsetRange
from semel.spark.source_settings import SourceSettings
from semel.spark.worker_process import settle

# Spark's own readers cut at ten thousand rows; larger batches cost less per row, and some tens
# of thousands of common records still fit into a processor's cache.
_ROWS_MAX = 32_768


class RangePartition(InputPartition):
    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(tuple(offsets))
        self.range = offsets

    def __repr__(self) -> str:
        return f"{self.range.partition} from {self.range.start} to {self.range.end}"


def read_range(settings: SourceSettings, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    settle()
    try:
        yield from _read(settings, wanted)
    except RecordsLost as lost:
        data_loss.report(str(lost), fails=True)


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

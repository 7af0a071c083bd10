"""The batch source: all partitions between two bounds, as they stand when the query is planned."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import beginnings_of
from semel.errors import ConfigError
from semel.spark import data_loss
from semel.spark.bounds import Bound, offsets_of
from semel.spark.lookup import look_up
from semel.spark.offsets import OffsetRange
from semel.spark.reading import RangePartition, read_range
from semel.spark.sentences import SentenceFirst
from semel.spark.source_settings import SourceSettings
from semel.types import TopicPartition


class BatchReader(DataSourceReader):
    def __init__(self, settings: SourceSettings, start: Bound, end: Bound) -> None:
        self._settings = settings
        self._start = start
        self._end = end

    @SentenceFirst()
    def partitions(self) -> Sequence[InputPartition]:
        ranges, topic_ids = look_up(self._settings, self._ranges)
        parts = self._settings.split(ranges)
        return [RangePartition(each, topic_ids.get(each.partition.topic)) for each in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            # Where there is nothing to read, Spark makes up a partition of its own.
            return iter(())
        return read_range(self._settings, partition)

    async def _ranges(self, cluster: Cluster) -> tuple[list[OffsetRange], dict[str, str]]:
        settings = self._settings
        partitions, topic_ids = await settings.subscription.find(cluster)
        starts = await offsets_of(cluster, self._start, partitions, settings.isolation)
        ends = await offsets_of(cluster, self._end, partitions, settings.isolation)
        earliest = await beginnings_of(cluster, partitions)
        ranges = [
            self._readable(OffsetRange(partition, starts[partition], ends[partition]), earliest)
            for partition in partitions
        ]
        return ranges, topic_ids

    def _readable(self, wanted: OffsetRange, earliest: dict[TopicPartition, int]) -> OffsetRange:
        if wanted.end < wanted.start:
            # Bounds by time may cross, as the records need not be in the order of their times.
            if self._start.named is None and self._end.named is None:
                return OffsetRange(wanted.partition, wanted.end, wanted.end)
            raise ConfigError(
                f"{self._start.option} and {self._end.option}: {wanted.partition} would be read "
                f"from offset {wanted.start} to {wanted.end}"
            )
        readable, lost = data_loss.readable_range(wanted, earliest)
        if lost is not None:
            data_loss.report(lost, fails=self._settings.fails_on_data_loss)
        return readable

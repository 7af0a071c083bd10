"""The streaming source: plans micro-batches at the driver, hands their ranges to tasks."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from semel.client.cluster import Cluster
from semel.client.offsets import beginnings_of, ends_of
from semel.spark import data_loss
from semel.spark.bounds import Bound
from semel.spark.log_ends import offsets_of
from semel.spark.lookup import look_up
from semel.spark.offsets import (
    OffsetRange,
    Offsets,
    count_between,
    from_json,
    limited,
    limited_by_size,
    split,
    to_json,
)
from semel.spark.reading import RangePartition, read_range
from semel.spark.record_sizes import sizes_per_offset
from semel.spark.source_settings import SourceSettings
from semel.types import TopicPartition
from semel.world import Clock, SystemClock


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives at the driver for as long as the query runs; tasks get copies without state."""

    def __init__(self, settings: SourceSettings, start: Bound, clock: Clock | None = None) -> None:
        self._settings = settings
        self._start = start
        self._clock = clock or SystemClock()
        self._target: Offsets | None = None
        """Where Trigger.AvailableNow ends."""
        self._batch_planned_ms: int | None = None
        self._latest: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below.
        async def find(cluster: Cluster) -> Offsets:
            partitions = await self._settings.subscription.find(cluster)
            return await offsets_of(cluster, self._start, partitions, self._settings.isolation)

        return to_json(self._look_up(find))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark knows no combined limit, so that one of them stands for all."""
        limits = self._settings.limits
        if limits.offsets_max is not None:
            return ReadMaxRows(limits.offsets_max)
        if limits.size_max is not None:
            return ReadMaxBytes(limits.size_max)
        if limits.offsets_min is not None:
            return ReadMinRows(limits.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._look_up(self._ends)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Up to the last stable offset, so that no task waits for an open transaction."""
        begun = from_json(start)
        ends = self._target if self._target is not None else self._look_up(self._ends)
        self._latest = ends
        if (gone := data_loss.gone_partitions(begun, ends)) is not None:
            data_loss.report(gone, fails=self._settings.fails_on_data_loss)
        begun = self._with_new_partitions(begun, ends)
        if isinstance(limit, ReadAllAvailable):
            return to_json(ends)
        if self._waits_for_more(begun, ends):
            return start
        self._batch_planned_ms = self._clock.monotonic_ms()
        return to_json(self._limited(begun, ends))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, ends = from_json(start), from_json(end)
        if begun == ends:
            return []
        earliest = self._look_up(self._beginnings)
        ranges = []
        for partition, offset in sorted(ends.items()):
            if partition not in earliest:
                data_loss.report(
                    f"the records of {partition} up to offset {offset - 1} were deleted with it",
                    fails=self._settings.fails_on_data_loss,
                )
                continue
            # Partitions that were added since the last batch are read from their beginning.
            wanted = OffsetRange(partition, begun.get(partition, earliest[partition]), offset)
            readable, lost = data_loss.readable_range(wanted, earliest)
            if lost is not None:
                data_loss.report(lost, fails=self._settings.fails_on_data_loss)
            ranges.append(readable)
        return [RangePartition(each) for each in split(ranges, self._settings.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_range(self._settings, partition.range)

    def _with_new_partitions(self, begun: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        new = [partition for partition in ends if partition not in begun]
        if not new:
            return dict(begun)
        return {**begun, **self._look_up(lambda cluster: beginnings_of(cluster, new))}

    def _waits_for_more(self, begun: Offsets, ends: Offsets) -> bool:
        """Whether too little is there, and little time has passed since the last batch."""
        limits = self._settings.limits
        if limits.offsets_min is None or self._target is not None:
            return False
        if self._batch_planned_ms is None:
            return False
        waited_ms = self._clock.monotonic_ms() - self._batch_planned_ms
        return count_between(begun, ends) < limits.offsets_min and waited_ms < limits.delay_ms_max

    def _limited(self, begun: Offsets, ends: Offsets) -> Offsets:
        limits = self._settings.limits
        if limits.offsets_max is not None:
            ends = limited(begun, ends, limits.offsets_max)
        if limits.size_max is not None and count_between(begun, ends):
            planned = ends
            sizes = look_up(self._settings, lambda c: sizes_per_offset(c, begun, planned))
            ends = limited_by_size(begun, ends, limits.size_max, sizes)
        return ends

    async def _ends(self, cluster: Cluster) -> Offsets:
        partitions = await self._settings.subscription.find_remaining(cluster)
        return await ends_of(cluster, partitions, self._settings.isolation)

    async def _beginnings(self, cluster: Cluster) -> Offsets:
        partitions = await self._settings.subscription.find_remaining(cluster)
        return await beginnings_of(cluster, partitions)

    def _look_up(self, find: Callable[[Cluster], Awaitable[Offsets]]) -> Offsets:
        return look_up(self._settings, find)

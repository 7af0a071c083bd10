"""The streaming source: plans micro-batches at the driver, hands their ranges to tasks."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from semel.client.cluster.calls import together
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, beginnings_of, ends_of
from semel.client.columns.ranges import fetch_regions
from semel.errors import SemelError
from semel.spark import data_loss
from semel.spark.bounds import Bound, offsets_of
from semel.spark.interface import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from semel.spark.lookup import look_up
from semel.spark.offsets import (
    OffsetRange,
    Offsets,
    Reached,
    count_between,
    limited,
    limited_by_size,
    reached_from_json,
    to_json,
)
from semel.spark.reading import RangePartition, read_range
from semel.spark.sentences import SentenceFirst
from semel.spark.source_settings import SourceSettings
from semel.spark.subscription import QuerySubscription
from semel.types import TopicPartition
from semel.world import Clock, SystemClock

_log = logging.getLogger(__name__)

_SAMPLE_SIZE = 64 * 1024


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One lives at the driver for as long as the query runs; tasks get copies without state."""

    def __init__(self, settings: SourceSettings, start: Bound, clock: Clock | None = None) -> None:
        self._settings = settings
        self._start = start
        self._clock = clock or SystemClock()
        self._target: Reached | None = None
        """Where Trigger.AvailableNow ends."""
        self._batch_planned_ms: int | None = None
        self._latest: Reached | None = None

    @SentenceFirst()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below.
        async def find(cluster: Cluster) -> Reached:
            found = await self._settings.subscription.find(cluster)
            isolation = self._settings.isolation
            offsets = await offsets_of(cluster, self._start, found.partitions, isolation)
            return Reached(offsets, found.topic_ids)

        return to_json(look_up(self._settings, find))

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

    @SentenceFirst()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = look_up(self._settings, self._ends)

    @SentenceFirst()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Up to the last stable offset, so that no task waits for an open transaction."""
        begun = reached_from_json(start)
        latest = self._target or look_up(self._settings, self._ends)
        self._latest = latest
        kept = self._kept(begun, latest)
        ends = latest.offsets
        begin = self._with_new_partitions(kept, ends)
        if isinstance(limit, ReadAllAvailable):
            return to_json(latest)
        # What is no longer read has been told, and is to be told once.
        if len(kept) == len(begun.offsets) and self._waits_for_more(begin, ends):
            return start
        self._batch_planned_ms = self._clock.monotonic_ms()
        return to_json(latest._replace(offsets=self._limited(begin, ends)))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None if self._latest is None else to_json(self._latest)

    @SentenceFirst()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, planned = reached_from_json(start), reached_from_json(end)
        remade = begun.remade(planned)
        if begun.offsets == planned.offsets and not remade:
            return []
        existing = look_up(self._settings, lambda cluster: _beginnings(cluster, planned.offsets))
        gone = planned.remade(existing)
        ranges = []
        for partition, offset in sorted(planned.offsets.items()):
            if partition not in existing.offsets:
                self._report(
                    f"the records of {partition} up to offset {offset - 1} were deleted with it"
                )
                continue
            # What has come since the last batch is read from its beginning.
            begin = None if partition.topic in remade else begun.offsets.get(partition)
            first = existing.offsets[partition]
            wanted = OffsetRange(partition, first if begin is None else begin, offset)
            if partition.topic in gone:
                if wanted.size > 0:
                    self._report(data_loss.remade_within_a_batch(wanted))
                continue
            readable, lost = data_loss.readable_range(wanted, existing.offsets)
            if lost is not None:
                self._report(lost)
            ranges.append(readable)
        parts = self._settings.split(ranges)
        return [RangePartition(each, planned.topic_ids.get(each.partition.topic)) for each in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_range(self._settings, partition)

    def _kept(self, begun: Reached, latest: Reached) -> dict[TopicPartition, int]:
        """Where the query goes on in what it was reading, without what it reads no longer."""
        missing = begun.offsets.keys() - latest.offsets.keys()
        deleted = {each for each in missing if self._settings.subscription.includes(each)}
        if left := missing - deleted:
            _log.warning(
                "%s: no longer among what this query reads, which goes on without",
                ", ".join(map(str, sorted(left))),
            )
        if deleted:
            self._report(data_loss.deleted_partitions(begun.offsets, deleted))
        remade = begun.remade(latest)
        for topic in sorted(remade):
            self._report(data_loss.remade_topic(topic, begun.offsets))
        return {
            partition: offset
            for partition, offset in begun.offsets.items()
            if partition not in missing and partition.topic not in remade
        }

    def _with_new_partitions(self, begun: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        new = [partition for partition in ends if partition not in begun]
        if not new:
            return dict(begun)
        return {**begun, **look_up(self._settings, lambda cluster: beginnings_of(cluster, new))}

    def _report(self, loss: str) -> None:
        data_loss.report(loss, fails=self._settings.fails_on_data_loss)

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
            sizes = look_up(
                self._settings, lambda cluster: _sizes_per_offset(cluster, begun, planned)
            )
            ends = limited_by_size(begun, ends, limits.size_max, sizes)
        return ends

    async def _ends(self, cluster: Cluster) -> Reached:
        found = await self._settings.subscription.find_remaining(cluster)
        offsets = await ends_of(cluster, found.partitions, self._settings.isolation)
        return Reached(offsets, found.topic_ids)


class RefusedReader(DataSourceStreamReader):
    """In place of a reader that could not be made, to say so when Spark asks it something.

    When none is made Spark stumbles, and tells of that instead.
    """

    def __init__(self, error: SemelError) -> None:
        self._error = error

    @SentenceFirst()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        raise self._error

    @SentenceFirst()
    def latestOffset(self, *of_batch: Any) -> dict[str, Any]:  # noqa: N802
        raise self._error

    @SentenceFirst()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


async def _beginnings(cluster: Cluster, planned: Offsets) -> Reached:
    """Of what is left of a batch, also if the query would not plan it now."""
    found = await QuerySubscription(partitions=tuple(planned)).find_remaining(cluster)
    return Reached(await beginnings_of(cluster, found.partitions), found.topic_ids)


async def _sizes_per_offset(
    cluster: Cluster, start: Offsets, end: Offsets
) -> dict[TopicPartition, float]:
    """Bytes as they are stored, compressed or not, judged by the first that are to be read.

    There is nothing of a partition without new offsets.
    """
    sizes: dict[TopicPartition, float] = {}

    async def measure(partition: TopicPartition) -> None:
        regions = fetch_regions(
            cluster,
            partition,
            start[partition],
            end[partition],
            isolation=Isolation.READ_UNCOMMITTED,
            fetch_size_max=_SAMPLE_SIZE,
            accepts_loss=True,
        )
        async for region in regions:
            sizes[partition] = len(region.batches) / (region.next_offset - region.start_offset)
            break
        await regions.aclose()  # type: ignore[attr-defined]

    await together(
        measure(partition) for partition, offset in end.items() if offset > start[partition]
    )
    return sizes

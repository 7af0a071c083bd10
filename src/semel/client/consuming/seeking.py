"""Where a consumer stands and where it is sent: positions, seeks, pauses and lag."""

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime
from operator import index

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import (
    OFFSET_MAX,
    as_time_ms,
    ends_of,
    offsets_at_or_end,
)
from semel.client.consuming.partition import Want, as_topic_partitions
from semel.client.consuming.positions import Positions
from semel.client.consuming.refusals import NoOffset
from semel.client.consuming.settings import ConsumerSettings
from semel.errors import OffsetOutOfRange, RequestTimedOut, UnknownTopicOrPartition
from semel.types import TopicPartition


class Seeking:
    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        settings: ConsumerSettings,
        pump: Callable[[], object],
        news: asyncio.Event,
        check_open: Callable[[], object],
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._settings = settings
        self._pump = pump
        self._news = news
        self._check_open = check_open

    async def position(self, partition: TopicPartition) -> int:
        (partition,) = as_topic_partitions([partition])
        await self._located([partition])
        offset = self._positions.position(partition)
        assert offset is not None, "it was waited for"
        return offset

    async def _located(self, partitions: Collection[TopicPartition]) -> None:
        """Wait until these have a position."""
        try:
            async with asyncio.timeout(self._settings.block_timeout_ms / 1000):
                while not self._are_located(partitions):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            waited_for = ", ".join(f"{partition}" for partition in sorted(partitions))
            raise RequestTimedOut(
                f"{waited_for}: no position within {self._settings.block_timeout_ms} ms"
            ) from None

    def _are_located(self, partitions: Collection[TopicPartition]) -> bool:
        self._check_open()
        self._check_assigned(partitions)
        wants = {spot.partition: spot.want for spot in self._positions.spots(partitions)}
        for partition, want in wants.items():
            if want is Want.SEEK:
                raise NoOffset(f"{partition} has no position: seek to one")
        return not any(wants.values())

    def _check_assigned(self, partitions: Collection[TopicPartition]) -> None:
        assigned = self._positions.partitions
        for partition in partitions:
            if partition not in assigned:
                raise UnknownTopicOrPartition(f"{partition} is not assigned to this consumer")

    def _chosen(self, partitions: Collection[TopicPartition] | None) -> frozenset[TopicPartition]:
        if partitions is None:
            return self._positions.partitions
        chosen = as_topic_partitions(partitions)
        self._check_assigned(chosen)
        return chosen

    def seek(self, partition: TopicPartition, offset: int) -> None:
        (partition,) = self._chosen([partition])
        try:
            whole = index(offset)
        except TypeError:
            raise TypeError(
                f"the offset of {partition} is {offset!r}: it has to be a whole number"
            ) from None
        if not 0 <= whole <= OFFSET_MAX:
            raise OffsetOutOfRange(f"{partition} has no offset {whole}")
        self._positions.seek(partition, whole)
        self._pump()

    async def seek_to(self, want: Want, partitions: Collection[TopicPartition] | None) -> None:
        chosen = self._chosen(partitions)
        for partition in chosen:
            self._positions.require(partition, want)
        self._pump()
        await self._located(chosen)

    async def seek_to_time(
        self, time: int | datetime, partitions: Collection[TopicPartition] | None
    ) -> None:
        self._check_open()
        found = await offsets_at_or_end(
            self._cluster, self._chosen(partitions), as_time_ms(time), self._settings.isolation
        )
        for partition, offset in found.items():
            self.seek(partition, offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._positions.pause(self._chosen(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._positions.resume(self._chosen(partitions))
        self._pump()

    async def lag(self) -> dict[TopicPartition, int]:
        self._check_open()
        ends = await ends_of(self._cluster, self._positions.partitions, self._settings.isolation)
        return {
            partition: max(0, ends[partition] - position.offset)
            for partition, position in self._positions.delivered().items()
            if partition in ends
        }

"""Where a consumer stands and where it is sent: positions, seeks, pauses and lag."""

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import as_time_ms, ends_of, offsets_at_or_end
from semel.client.consuming.partition import Want
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

    async def position(self, place: TopicPartition) -> int:
        await self._located([place])
        offset = self._positions.position(place)
        assert offset is not None, "it was waited for"
        return offset

    async def _located(self, places: Collection[TopicPartition]) -> None:
        """Wait until these have a position."""
        try:
            async with asyncio.timeout(self._settings.block_timeout_ms / 1000):
                while not self._are_located(places):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            waited_for = ", ".join(f"{place}" for place in sorted(places))
            raise RequestTimedOut(
                f"{waited_for}: no position within {self._settings.block_timeout_ms} ms"
            ) from None

    def _are_located(self, places: Collection[TopicPartition]) -> bool:
        self._check_open()
        self._check_assigned(places)
        wants = {spot.place: spot.want for spot in self._positions.spots(places)}
        for place, want in wants.items():
            if want is Want.SEEK:
                raise NoOffset(f"{place} has no position: seek to one")
        return not any(wants.values())

    def _check_assigned(self, places: Collection[TopicPartition]) -> None:
        assigned = self._positions.places
        for place in places:
            if place not in assigned:
                raise UnknownTopicOrPartition(f"{place} is not assigned to this consumer")

    def _chosen(self, places: Collection[TopicPartition] | None) -> Collection[TopicPartition]:
        if places is None:
            return self._positions.places
        self._check_assigned(places)
        return places

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._check_assigned([place])
        if offset < 0:
            raise OffsetOutOfRange(f"{place} has no offset {offset}")
        self._positions.seek(place, offset)
        self._pump()

    async def seek_to(self, want: Want, places: Collection[TopicPartition] | None) -> None:
        chosen = self._chosen(places)
        for place in chosen:
            self._positions.require(place, want)
        self._pump()
        await self._located(chosen)

    async def seek_to_time(
        self, time: int | datetime, places: Collection[TopicPartition] | None
    ) -> None:
        self._check_open()
        found = await offsets_at_or_end(
            self._cluster, self._chosen(places), as_time_ms(time), self._settings.isolation
        )
        for place, offset in found.items():
            self.seek(place, offset)

    def pause(self, places: Collection[TopicPartition]) -> None:
        self._positions.pause(self._chosen(places))

    def resume(self, places: Collection[TopicPartition]) -> None:
        self._positions.resume(self._chosen(places))
        self._pump()

    async def lag(self) -> dict[TopicPartition, int]:
        self._check_open()
        ends = await ends_of(self._cluster, self._positions.places, self._settings.isolation)
        return {
            place: max(0, ends[place] - position.offset)
            for place, position in self._positions.delivered().items()
            if place in ends
        }

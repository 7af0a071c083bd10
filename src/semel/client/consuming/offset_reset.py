"""Finding out where to read: what was committed, where a log begins, whether it was cut."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import EARLIEST_MS, LATEST_MS, offsets_at
from semel.client.consuming.coordination import GroupCoordination
from semel.client.consuming.partition import Spot, Want
from semel.client.consuming.positions import Positions
from semel.client.consuming.reach import Reach
from semel.client.consuming.refusals import NoOffset
from semel.client.consuming.settings import ConsumerSettings
from semel.errors import OffsetOutOfRange, RequestError, SemelError, UnsupportedVersion
from semel.types import TopicPartition
from semel.wire.messages import offset_for_leader_epoch as epochs

_CONSUMER = -1
_NO_OFFSET = -1

Start = Callable[[Coroutine[Any, Any, None]], object]


class OffsetReset:
    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        settings: ConsumerSettings,
        coordination: GroupCoordination | None,
        start: Start,
        located: Callable[[], object],
        report: Callable[[SemelError], object],
        relearn: Callable[[], object],
    ) -> None:
        self._cluster = cluster
        self._positions = positions
        self._settings = settings
        self._coordination = coordination
        self._start = start
        self._located = located
        self._report = report
        # Each question has servers of its own.
        self._reach = {want: Reach(settings.block_timeout_ms, report) for want in Want}
        self._relearn = relearn
        self._busy: set[tuple[Want, str]] = set()

    def pump(self) -> None:
        """Ask whatever is not being asked; what one topic waits for does not hold up another."""
        questions: dict[tuple[Want, str], list[Spot]] = defaultdict(list)
        for spot in self._positions.wanted():
            assert spot.want is not None
            about = "" if spot.want is Want.COMMITTED else spot.partition.topic
            questions[spot.want, about].append(spot)
        for key, spots in questions.items():
            if key not in self._busy:
                self._busy.add(key)
                self._start(self._answer(key, spots))

    async def _answer(self, key: tuple[Want, str], spots: Sequence[Spot]) -> None:
        try:
            with self._reach[key[0]].attempt():
                await self._find(key[0], spots)
        except SemelError as error:
            if not (isinstance(error, RequestError) and error.retriable):
                self._report(error)
            self._relearn()
            await asyncio.sleep(self._settings.backoff_max_ms / 1000)
        finally:
            self._busy.discard(key)
        self._located()
        self.pump()

    async def _find(self, want: Want, spots: Sequence[Spot]) -> None:
        match want:
            case Want.COMMITTED:
                await self._find_committed(spots)
            case Want.CHECK:
                await self._check(spots)
            case _:
                await self._find_end(spots, EARLIEST_MS if want is Want.EARLIEST else LATEST_MS)

    async def _find_committed(self, spots: Sequence[Spot]) -> None:
        committed = {}
        if self._coordination is not None:
            committed = await self._coordination.committed([spot.partition for spot in spots])
        for spot in spots:
            if spot.partition in committed:
                at = committed[spot.partition]
                self._positions.located(spot, at.offset, at.epoch)
            else:
                self.reset(spot, NoOffset(f"{spot.partition} has no committed offset"))

    def reset(self, spot: Spot, error: OffsetOutOfRange | None = None) -> None:
        """Go where `auto_offset_reset` says, unless the application has gone elsewhere."""
        if self._settings.auto_offset_reset != "none":
            if self._positions.require_at(spot, Want(self._settings.auto_offset_reset)):
                self.pump()
        elif self._positions.require_at(spot, Want.SEEK):
            self._report(
                error
                or OffsetOutOfRange(f"offset {spot.offset} is not in partition {spot.partition}")
            )

    async def _find_end(self, spots: Sequence[Spot], timestamp_ms: int) -> None:
        found = await offsets_at(
            self._cluster,
            dict.fromkeys((spot.partition for spot in spots), timestamp_ms),
            self._settings.isolation,
        )
        for spot in spots:
            self._positions.located(spot, found[spot.partition])

    async def _check(self, spots: Sequence[Spot]) -> None:
        """Ask where the epoch ended that was read last: behind that, the log was cut."""
        ends = await self._ends_of_epochs(spots)
        for spot in spots:
            end_offset, epoch = ends.get(spot.partition, (spot.offset, spot.epoch))
            if end_offset >= spot.offset:
                self._positions.located(spot, spot.offset, spot.epoch)
            elif end_offset == _NO_OFFSET or self._settings.auto_offset_reset == "none":
                self.reset(
                    spot, OffsetOutOfRange(f"{spot.partition} was cut before offset {spot.offset}")
                )
            else:
                self._positions.located(spot, end_offset, epoch)

    async def _ends_of_epochs(self, spots: Sequence[Spot]) -> dict[TopicPartition, tuple[int, int]]:
        """The end and the epoch it belongs to; nothing of leaders that cannot tell."""
        leaders = await self._cluster.leaders_of([spot.partition for spot in spots])
        by_leader: dict[int, list[Spot]] = defaultdict(list)
        for spot in spots:
            by_leader[leaders[spot.partition]].append(spot)
        ends: dict[TopicPartition, tuple[int, int]] = {}
        for leader_id, asked in by_leader.items():
            try:
                reply = await self._cluster.call(leader_id, epochs, _epochs_request(asked))
            except UnsupportedVersion:
                continue
            for topic in reply.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.topic, each.partition)
                    raise_for(each.error_code, f"{partition}")
                    ends[partition] = (each.end_offset, each.leader_epoch)
        return ends


def _epochs_request(spots: Sequence[Spot]) -> epochs.OffsetForLeaderEpochRequest:
    topics: dict[str, list[epochs.OffsetForLeaderPartition]] = defaultdict(list)
    for spot in spots:
        topics[spot.partition.topic].append(
            epochs.OffsetForLeaderPartition(spot.partition.partition, spot.leader_epoch, spot.epoch)
        )
    return epochs.OffsetForLeaderEpochRequest(
        _CONSUMER,
        [epochs.OffsetForLeaderTopic(name, partitions) for name, partitions in topics.items()],
    )

"""Fetching ahead: a request waits at each leader, as long as there is room for its answer.

A second one may go beside it, over a connection of its own: for partitions that were sought or
resumed or came while the first one waits for records of others.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from semel.client.cluster.calls import raise_for, refusal
from semel.client.cluster.cluster import Cluster
from semel.client.consuming.completed_fetch import CompletedFetch
from semel.client.consuming.partition import Spot
from semel.client.consuming.positions import Positions
from semel.client.consuming.reach import Reach
from semel.client.consuming.settings import ConsumerSettings
from semel.errors import NONE, OffsetOutOfRange, RequestError, SemelError
from semel.types import TopicPartition
from semel.wire.messages import fetch

_CONSUMER = -1

Start = Callable[[Coroutine[Any, Any, None]], object]


class Fetching:
    def __init__(
        self,
        clusters: Sequence[Cluster],
        positions: Positions,
        settings: ConsumerSettings,
        start: Start,
        notify: Callable[[], object],
        report: Callable[[SemelError], object],
        reset: Callable[[Spot], object],
        relearn: Callable[[], object],
    ) -> None:
        self._clusters = clusters
        self._positions = positions
        self._settings = settings
        self._start = start
        self._notify = notify
        self._report = report
        self._reach = Reach(settings.block_timeout_ms, report)
        self._reset = reset
        self._relearn = relearn
        self._asked: dict[tuple[int, Cluster], frozenset[tuple[TopicPartition, int]]] = {}
        """What is under way to which broker, by partitions and versions."""

    def pump(self) -> None:
        self._positions.has_room_news = False
        for node_id, spots in self._positions.fetchable().items():
            asked = [self._asked.get((node_id, cluster)) for cluster in self._clusters]
            if None not in asked:
                continue
            cluster = self._clusters[asked.index(None)]
            covered = frozenset().union(*(each for each in asked if each is not None))
            wanted = [spot for spot in spots if (spot.partition, spot.version) not in covered]
            if wanted:
                self._asked[node_id, cluster] = frozenset(
                    (spot.partition, spot.version) for spot in wanted
                )
                self._start(self._fetch(node_id, cluster, wanted))

    async def _fetch(self, node_id: int, cluster: Cluster, spots: Sequence[Spot]) -> None:
        settings = self._settings
        try:
            with self._reach.attempt():
                pending = await cluster.ask(node_id, fetch, self._request(spots))
                timeout_ms = settings.request_timeout_ms + settings.fetch_wait_ms_max
                reply = await pending.reply(timeout_ms)
            raise_for(reply.error_code, "fetch")
            self._take_in(spots, reply)
        except SemelError as error:
            if isinstance(error, RequestError) and not error.retriable:
                self._report(error)
            for spot in spots:
                self._positions.forget_leader(spot.partition)
            self._relearn()
            await asyncio.sleep(settings.backoff_first_ms / 1000)
        finally:
            del self._asked[node_id, cluster]
        self.pump()

    def _take_in(self, spots: Sequence[Spot], reply: fetch.FetchResponse) -> None:
        by_partition = {spot.partition: spot for spot in spots}
        for topic in reply.responses:
            for answer in topic.partitions:
                spot = by_partition.get(TopicPartition(topic.topic, answer.partition_index))
                if spot is not None:
                    self._take_in_one(spot, answer)
        self._notify()

    def _take_in_one(self, spot: Spot, answer: fetch.PartitionData) -> None:
        if answer.error_code == NONE:
            self._positions.was_read(spot)
        if answer.error_code == OffsetOutOfRange.code:
            self._reset(spot)
        elif answer.error_code != NONE:
            error = refusal(answer.error_code, f"{spot.partition}")
            # Another leads it, or it is away: who does is asked before it is tried again.
            self._positions.forget_leader(spot.partition)
            self._relearn()
            if not error.retriable and self._positions.is_current(spot):
                self._report(error)
        elif answer.records:
            batches = answer.records
            assert not isinstance(batches, list), "read from the wire, records are one piece"
            try:
                fetched = CompletedFetch(
                    spot.partition, batches, answer.aborted_transactions or (), spot.offset
                )
            except RequestError as error:
                if self._positions.is_current(spot):
                    self._report(error)
                self._positions.forget_leader(spot.partition)
                self._relearn()
            else:
                self._positions.put(spot, fetched)

    def _request(self, spots: Sequence[Spot]) -> fetch.FetchRequest:
        settings = self._settings
        topics: dict[tuple[str, bytes], list[fetch.FetchPartition]] = defaultdict(list)
        for spot in spots:
            topics[spot.partition.topic, spot.topic_id].append(
                fetch.FetchPartition(
                    partition=spot.partition.partition,
                    current_leader_epoch=spot.leader_epoch,
                    fetch_offset=spot.offset,
                    partition_max_bytes=settings.partition_size_max,
                )
            )
        return fetch.FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=settings.fetch_wait_ms_max,
            min_bytes=settings.fetch_size_min,
            max_bytes=settings.fetch_size_max,
            isolation_level=settings.isolation,
            topics=[
                fetch.FetchTopic(name, partitions, topic_id)
                for (name, topic_id), partitions in topics.items()
            ],
            forgotten_topics_data=[],
        )

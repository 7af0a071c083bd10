"""Reading partitions from given offsets on, as an iterator that waits for more.

One task per leader keeps a fetch waiting at it, so that a record comes as soon as any broker
has it. When a leader moves or goes, all are stopped, the leaders asked anew, and reading goes on
at the offsets reached: an offset moves in the same step in which its records are handed out.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

from semel.client.cluster import Cluster
from semel.client.committed import readable_records
from semel.client.offsets import Isolation
from semel.client.refusal import raise_for
from semel.client.together import together
from semel.errors import OffsetOutOfRange, RequestError, SemelError
from semel.records.records import Record
from semel.types import TopicPartition
from semel.wire.messages import fetch

_CHUNKS_WAITING_MAX = 16
_CONSUMER = -1
_PAUSE_S = 0.1


class Chunk(NamedTuple):
    """The records of one partition from one fetch; none if all were filtered."""

    partition: TopicPartition
    records: list[Record]
    next_offset: int
    high_watermark: int


class Consumer:
    """`async with Consumer(...) as consumer: async for chunk in consumer: ...`"""

    def __init__(
        self,
        cluster: Cluster,
        start_offsets: Mapping[TopicPartition, int],
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        wait_ms_max: int = 500,
        fetch_size_max: int = 8 * 1024 * 1024,
        partition_size_max: int = 1024 * 1024,
    ) -> None:
        self._cluster = cluster
        self._offsets = dict(start_offsets)
        self._isolation = isolation
        self._wait_ms_max = wait_ms_max
        self._fetch_size_max = fetch_size_max
        self._partition_size_max = partition_size_max
        self._chunks: asyncio.Queue[Chunk | SemelError] = asyncio.Queue(_CHUNKS_WAITING_MAX)
        self._is_answered = False
        self._tasks = asyncio.TaskGroup()
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._reading = self._tasks.create_task(self._read())
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._reading is not None
        self._reading.cancel()
        # What the body raised is not the group's: it would come out wrapped.
        await self._tasks.__aexit__(None, None, None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        while self._offsets:
            chunk = await self._chunks.get()
            if isinstance(chunk, SemelError):
                raise chunk
            if chunk.partition in self._offsets:
                return chunk
        raise StopAsyncIteration

    def stop(self, partition: TopicPartition) -> None:
        """Read no more of this partition; the iteration ends when none is left."""
        self._offsets.pop(partition, None)

    async def _read(self) -> None:
        try:
            while self._offsets:
                await self._cluster.retry(self._read_until_moved)
        except SemelError as error:
            await self._chunks.put(error)

    async def _read_until_moved(self) -> None:
        self._is_answered = False
        leaders = await self._cluster.leaders_of(self._offsets)
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition, leader_id in leaders.items():
            by_leader[leader_id].append(partition)
        try:
            await together(
                self._read_from(leader_id, partitions)
                for leader_id, partitions in by_leader.items()
            )
        except RequestError as error:
            # After any answer the cluster's time to recover begins anew.
            if not (error.retriable and self._is_answered):
                raise
            await asyncio.sleep(_PAUSE_S)

    async def _read_from(self, leader_id: int, partitions: list[TopicPartition]) -> None:
        while wanted := [partition for partition in partitions if partition in self._offsets]:
            # The partition that had its turn goes to the end, so that each gets one.
            partitions = wanted[1:] + wanted[:1]
            reply = await self._cluster.call(leader_id, fetch, self._request(wanted))
            raise_for(reply.error_code, "fetch")
            for topic in reply.responses:
                for answer in topic.partitions:
                    place = TopicPartition(topic.topic, answer.partition_index)
                    if place in self._offsets:
                        await self._hand_out(place, answer)
            self._is_answered = True

    async def _hand_out(self, place: TopicPartition, answer: fetch.PartitionData) -> None:
        offset = self._offsets[place]
        if answer.error_code == OffsetOutOfRange.code:
            raise OffsetOutOfRange(f"offset {offset} is not in partition {place}")
        raise_for(answer.error_code, f"{place}")
        batches = answer.records
        if batches is None or isinstance(batches, list) or not len(batches):
            return
        records, next_offset = readable_records(batches, offset, answer.aborted_transactions or ())
        await self._chunks.put(Chunk(place, records, next_offset, answer.high_watermark))
        if place in self._offsets:
            self._offsets[place] = next_offset

    def _request(self, partitions: list[TopicPartition]) -> fetch.FetchRequest:
        topics: dict[str, list[fetch.FetchPartition]] = defaultdict(list)
        for place in partitions:
            topics[place.topic].append(
                fetch.FetchPartition(
                    partition=place.partition,
                    fetch_offset=self._offsets[place],
                    partition_max_bytes=self._partition_size_max,
                )
            )
        return fetch.FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=self._wait_ms_max,
            min_bytes=1,
            max_bytes=self._fetch_size_max,
            isolation_level=self._isolation,
            topics=[fetch.FetchTopic(name, places) for name, places in topics.items()],
            forgotten_topics_data=[],
        )

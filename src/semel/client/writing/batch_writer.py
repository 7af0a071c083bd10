"""Sending prepared batches: each is stamped with its producer and sequence, and stored once.

Up to five requests are under way to a leader, one batch of a partition in each. When one fails,
all behind it are sent again in the same order: the broker remembers the last five batches of a
producer in each partition and answers for those it has. No write ends, in whatever way, before
each of its requests has an answer or has lost its link.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from semel.client.cluster.calls import together
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicRemade
from semel.client.connecting.link import Pending
from semel.client.producing.requests import error_of
from semel.client.producing.settings import ACKS_ALL
from semel.errors import NetworkException, RequestError
from semel.records.batch import read_header, with_producer
from semel.types import SEQUENCE_COUNT, Buffer, ProducerIdAndEpoch, TopicPartition
from semel.wire.messages import produce

_IN_FLIGHT_MAX = 5
_REQUEST_SIZE_MAX = 8 * 1024 * 1024
_PAUSE_S = 0.1


class Delivery(NamedTuple):
    """Records that were stored next to each other."""

    partition: TopicPartition
    base_offset: int
    """-1 where the broker has forgotten the place of a retry."""
    record_count: int


class _Sending(NamedTuple):
    content: bytes
    record_count: int


class _UnderWay(NamedTuple):
    batches: Sequence[tuple[TopicPartition, _Sending]]
    pending: Pending[produce.ProduceResponse]


class EncodedBatchWriter:
    def __init__(
        self, cluster: Cluster, producer: ProducerIdAndEpoch, transactional_id: str | None = None
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._transactional_id = transactional_id
        self._next_sequences: dict[TopicPartition, int] = defaultdict(int)
        self._waiting: dict[TopicPartition, deque[_Sending]] = defaultdict(deque)
        self._topic_ids: dict[str, bytes] = {}
        self._deliveries: list[Delivery] = []

    def begin_at(self, partition: TopicPartition, sequence: int) -> None:
        """Go on in a partition where others have written under the same producer."""
        self._next_sequences[partition] = sequence

    async def write(self, batches: Iterable[tuple[TopicPartition, Buffer]]) -> list[Delivery]:
        """Store these batches, in order within each partition; one caller at a time.

        After a refusal it is not known which of them are stored.
        """
        assert not self._waiting, "a write has failed before, or is under way"
        for partition, batch in batches:
            self._waiting[partition].append(self._stamped(partition, batch))
        self._deliveries = []
        while self._waiting:
            await self._cluster.retry(self._write_while_leaders_stay)
        return self._deliveries

    def _stamped(self, partition: TopicPartition, batch: Buffer) -> _Sending:
        record_count = read_header(batch).record_count
        sequence = self._next_sequences[partition]
        self._next_sequences[partition] = (sequence + record_count) % SEQUENCE_COUNT
        content = with_producer(
            batch,
            *self._producer,
            sequence,
            is_transactional=self._transactional_id is not None,
        )
        return _Sending(content, record_count)

    async def _write_while_leaders_stay(self) -> None:
        done_before = len(self._deliveries)
        try:
            leaders = await self._cluster.leaders_and_topic_ids(self._waiting)
            by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
            for partition, (leader_id, topic_id) in leaders.items():
                if self._topic_ids.setdefault(partition.topic, topic_id) != topic_id:
                    # Some of what was written may be gone, and nobody could tell.
                    raise TopicRemade(partition.topic)
                by_leader[leader_id].append(partition)
            await together(self._write_to(*each) for each in by_leader.items())
        except RequestError as error:
            # After any answer the cluster's time to recover begins anew.
            if not error.retriable or len(self._deliveries) == done_before:
                raise
            await asyncio.sleep(_PAUSE_S)

    async def _write_to(self, leader_id: int, partitions: list[TopicPartition]) -> None:
        under_way: deque[_UnderWay] = deque()
        try:
            for batches in self._requests(partitions):
                if len(under_way) == _IN_FLIGHT_MAX:
                    await self._settle(under_way[0])
                    under_way.popleft()
                pending = await self._cluster.ask(leader_id, produce, self._request(batches))
                under_way.append(_UnderWay(batches, pending))
            while under_way:
                await self._settle(under_way[0])
                under_way.popleft()
        except BaseException:
            # What is under way may be stored yet, and must not come behind an abort.
            for each in under_way:
                with suppress(RequestError):
                    await self._settle(each)
            raise

    def _requests(
        self, partitions: list[TopicPartition]
    ) -> Iterator[list[tuple[TopicPartition, _Sending]]]:
        """What waits for these partitions, with at most one batch of each in a request."""
        queues = {partition: list(self._waiting[partition]) for partition in partitions}
        for number in range(max(map(len, queues.values()))):
            batches: list[tuple[TopicPartition, _Sending]] = []
            size = 0
            for partition, queue in queues.items():
                if number >= len(queue):
                    continue
                if batches and size + len(queue[number].content) > _REQUEST_SIZE_MAX:
                    yield batches
                    batches, size = [], 0
                batches.append((partition, queue[number]))
                size += len(queue[number].content)
            yield batches

    def _request(
        self, batches: Sequence[tuple[TopicPartition, _Sending]]
    ) -> produce.ProduceRequest:
        topics: dict[str, list[produce.PartitionProduceData]] = defaultdict(list)
        for (topic, partition), batch in batches:
            topics[topic].append(produce.PartitionProduceData(partition, batch.content))
        return produce.ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ACKS_ALL,
            timeout_ms=self._cluster.timeout_ms,
            topic_data=[
                produce.TopicProduceData(name, data, self._topic_ids[name])
                for name, data in topics.items()
            ],
        )

    async def _settle(self, request: _UnderWay) -> None:
        reply = await request.pending.reply(self._cluster.timeout_ms)
        answers = {
            TopicPartition(topic.name, answer.index): answer
            for topic in reply.responses
            for answer in topic.partition_responses
        }
        refused: RequestError | None = None
        for partition, batch in request.batches:
            answer = answers.get(partition)
            if answer is None:
                raise NetworkException(f"the reply to Produce says nothing of {partition}")
            error = error_of(answer, partition, len(batch.content))
            if error is None:
                self._stored(partition, batch, answer.base_offset)
            refused = refused or error
        if refused is not None:
            raise refused

    def _stored(self, partition: TopicPartition, batch: _Sending, base_offset: int) -> None:
        queue = self._waiting.get(partition)
        if not queue or queue[0] is not batch:
            # It is sent again with those before it that failed, or has been answered before.
            return
        queue.popleft()
        if not queue:
            del self._waiting[partition]
        self._deliveries.append(Delivery(partition, base_offset, batch.record_count))

"""Sending records: to the partition of their key, in batches, each stored once.

With idempotence a batch carries a producer id and a sequence, so that the broker recognises
the retry of one it has. Sequences belong to the order of batches in a partition, so a partition
has one request in flight at a time.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from semel.client.cluster import Cluster
from semel.client.partitioner import partition_of
from semel.client.refusal import raise_for
from semel.client.together import together
from semel.errors import ConfigError, MessageTooLarge, ProtocolError, UnknownTopicOrPartition
from semel.records.batch import HEADER_SIZE
from semel.records.compression import Compression
from semel.records.records import Record, encode_batch
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_COUNT,
    TopicPartition,
)
from semel.wire.messages import init_producer_id, produce

ACKS_ALL = -1
ACKS_NONE = 0

# Upper bound of what a record adds to its key, value and headers: seven varints and a byte.
_RECORD_OVERHEAD_SIZE = 40
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class Delivery(NamedTuple):
    """Records that were stored next to each other."""

    partition: TopicPartition
    base_offset: int
    """-1 where the broker was not asked to answer, or has forgotten the place of a retry."""
    record_count: int


class Producer:
    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        compression: Compression = Compression.NONE,
        is_idempotent: bool = True,
        batch_size_max: int = 900_000,
    ) -> None:
        if is_idempotent and acks != ACKS_ALL:
            raise ConfigError("an idempotent producer needs acks=all")
        self._cluster = cluster
        self._acks = acks
        self._compression = compression
        self._is_idempotent = is_idempotent
        self._batch_size_max = batch_size_max
        self._producer_id: int = NO_PRODUCER_ID
        self._producer_epoch: int = NO_PRODUCER_EPOCH
        self._next_sequences: dict[TopicPartition, int] = defaultdict(int)
        self._locks: dict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._initialising = asyncio.Lock()
        self._next_keyless = 0

    async def send(
        self, topic: str, records: Sequence[Record], partition: int | None = None
    ) -> list[Delivery]:
        """Store these records; return when the brokers have answered for all of them.

        Records with a key go to the partition of their key, others to each partition in turn.
        """
        if self._is_idempotent:
            await self._initialise()
        partition_count = len((await self._cluster.topic_to_write(topic)).partitions)
        if partition is not None and not 0 <= partition < partition_count:
            raise UnknownTopicOrPartition(
                f"topic {topic} has no partition {partition}: it has {partition_count}"
            )
        by_partition: dict[TopicPartition, list[Record]] = defaultdict(list)
        for record in records:
            number = self._place(record, partition_count) if partition is None else partition
            by_partition[TopicPartition(topic, number)].append(record)
        sent = await together(
            self._send_to(place, placed) for place, placed in by_partition.items()
        )
        return [delivery for deliveries in sent for delivery in deliveries]

    def _place(self, record: Record, partition_count: int) -> int:
        if record.key is not None:
            return partition_of(record.key, partition_count)
        self._next_keyless += 1
        return (self._next_keyless - 1) % partition_count

    async def _initialise(self) -> None:
        async with self._initialising:
            if self._producer_id != NO_PRODUCER_ID:
                return

            async def attempt() -> init_producer_id.InitProducerIdResponse:
                reply = await self._cluster.call_any(
                    init_producer_id,
                    init_producer_id.InitProducerIdRequest(
                        transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS
                    ),
                )
                raise_for(reply.error_code, "producer id")
                return reply

            reply = await self._cluster.retry(attempt)
            self._producer_id = reply.producer_id
            self._producer_epoch = reply.producer_epoch

    async def _send_to(self, place: TopicPartition, records: list[Record]) -> list[Delivery]:
        deliveries = []
        async with self._locks[place]:
            for part in self._parts(records):
                batch = self._batch(place, part)

                async def attempt(batch: bytes = batch) -> int:
                    return await self._produce(place, batch)

                base_offset = await self._cluster.retry(attempt)
                self._next_sequences[place] += len(part)
                deliveries.append(Delivery(place, base_offset, len(part)))
        return deliveries

    def _parts(self, records: list[Record]) -> Iterator[list[Record]]:
        part: list[Record] = []
        part_size = HEADER_SIZE
        for record in records:
            size = _size_bound(record)
            if part and part_size + size > self._batch_size_max:
                yield part
                part = []
                part_size = HEADER_SIZE
            part.append(record)
            part_size += size
        yield part

    def _batch(self, place: TopicPartition, records: list[Record]) -> bytes:
        sequence = self._next_sequences[place] % SEQUENCE_COUNT
        return encode_batch(
            records,
            compression=self._compression,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence if self._is_idempotent else NO_SEQUENCE,
        )

    async def _produce(self, place: TopicPartition, batch: bytes) -> int:
        leader_id = (await self._cluster.leaders_of([place]))[place]
        request = produce.ProduceRequest(
            acks=self._acks,
            timeout_ms=self._cluster.timeout_ms,
            topic_data=[
                produce.TopicProduceData(
                    place.topic, [produce.PartitionProduceData(place.partition, batch)]
                )
            ],
        )
        if self._acks == ACKS_NONE:
            await self._cluster.tell(leader_id, produce, request)
            return -1
        reply = await self._cluster.call(leader_id, produce, request)
        for topic in reply.responses:
            for partition in topic.partition_responses:
                if partition.error_code == MessageTooLarge.code:
                    raise MessageTooLarge(
                        f"{place}: a batch of {len(batch)} bytes is larger than the topic takes"
                    )
                raise_for(partition.error_code, f"{place}", partition.error_message)
                return partition.base_offset
        raise ProtocolError(f"the reply to Produce says nothing of {place}")


def _size_bound(record: Record) -> int:
    """No less than the record takes in a batch without compression."""
    size = _RECORD_OVERHEAD_SIZE + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += 10 + 4 * len(name) + len(value or b"")
    return size

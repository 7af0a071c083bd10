"""Our consumer in one group with those of other libraries, which share out partitions alike."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from client.consuming.group_members import DEADLINE_S, Members
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics
from support.clients import confluent_consumer

PARTITION_COUNT = 4

Seen = Counter[tuple[TopicPartition, int]]


class Other:
    """A member of another library, in a thread; `seen` counts what it was handed."""

    def __init__(self) -> None:
        self.seen: Seen = Counter()
        self.owned: set[int] = set()
        self.has_all = threading.Event()
        self.is_over = threading.Event()

    def own(self, partitions: set[int]) -> None:
        self.owned = partitions
        if len(partitions) == PARTITION_COUNT:
            self.has_all.set()

    def see(self, topic: str, partition: int, offset: int) -> None:
        self.seen[TopicPartition(topic, partition), offset] += 1


def confluent(servers: str, topic: str, assignor: str, other: Other) -> None:
    options = {
        "partition.assignment.strategy": assignor.replace("_", ""),
        "heartbeat.interval.ms": 100,
        "auto.commit.interval.ms": 100,
    }
    with confluent_consumer(servers, topic, options) as consumer:
        consumer.subscribe([topic])
        while not other.is_over.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                other.see(topic, message.partition(), message.offset())
            other.own({each.partition for each in consumer.assignment()})


def kafka_python(servers: str, topic: str, assignor: str, other: Other) -> None:
    by_name = {"range": RangePartitionAssignor, "round_robin": RoundRobinPartitionAssignor}
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        partition_assignment_strategy=[by_name[assignor]],
    )
    try:
        while not other.is_over.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                for record in records:
                    other.see(topic, record.partition, record.offset)
            other.own({each.partition for each in consumer.assignment()})
    finally:
        consumer.close()


def aiokafka(servers: str, topic: str, assignor: str, other: Other) -> None:
    async def work() -> None:
        by_name = {"range": AioRange, "round_robin": AioRoundRobin}
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=topic,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            partition_assignment_strategy=[by_name[assignor]],
        ) as consumer:
            while not other.is_over.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    for record in records:
                        other.see(topic, record.partition, record.offset)
                other.own({each.partition for each in consumer.assignment()})

    asyncio.run(work())


@contextmanager
def running(work: Callable[..., None], *arguments: Any) -> Iterator[Other]:
    other = Other()
    thread = threading.Thread(target=work, args=(*arguments, other))
    thread.start()
    try:
        yield other
    finally:
        other.is_over.set()
        thread.join()


@pytest.mark.parametrize(
    ("library", "assignor"),
    [
        (confluent, "cooperative-sticky"),
        (confluent, "range"),
        (confluent, "round_robin"),
        (kafka_python, "range"),
        (kafka_python, "round_robin"),
        (aiokafka, "range"),
        (aiokafka, "round_robin"),
    ],
)
@pytest.mark.parametrize("leader", ["ours", "theirs"])
def test_members_of_two_libraries_share_a_topic(
    semel_broker: Broker,
    request: pytest.FixtureRequest,
    library: Callable[..., None],
    assignor: str,
    leader: str,
) -> None:
    servers, topic = semel_broker.bootstrap_servers, topics.name_for(request)
    topics.create(servers, topic, PARTITION_COUNT)

    async def both(members: Members, other: Other, member: Any) -> None:
        await members.until(lambda: len(member.owned) == len(other.owned) == 2)
        assert {each.partition for each in member.owned} | other.owned == {0, 1, 2, 3}
        for partition in range(PARTITION_COUNT):
            await asyncio.to_thread(topics.fill, servers, topic, [b"x"] * 20, partition)
        await members.until(lambda: len(members.read + other.seen) == 20 * PARTITION_COUNT)
        assert set((members.read + other.seen).values()) == {1}

    async def work() -> None:
        members = Members(servers, topic, [topic])
        # The first to join leads the group, and shares out its partitions.
        if leader == "ours":
            async with members.member(assignor=assignor) as member:
                await members.until(lambda: len(member.owned) == PARTITION_COUNT)
                with running(library, servers, topic, assignor) as other:
                    await both(members, other, member)
        else:
            with running(library, servers, topic, assignor) as other:
                assert await asyncio.to_thread(other.has_all.wait, DEADLINE_S)
                async with members.member(assignor=assignor) as member:
                    await both(members, other, member)

    asyncio.run(work())

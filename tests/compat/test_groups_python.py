"""kafka-python and aiokafka in groups: sharing, handing over, static members, seeks, commits."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from typing import Any

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from support.clients import (
    DEADLINE_S,
    Background,
    Confluent,
    Sent,
    kafka_python_consumer,
    next_records,
    run_async,
)

MANUAL: dict[str, Any] = {"enable_auto_commit": False, "heartbeat_interval_ms": 200}


def fill(servers: str, topic: str, count: int) -> list[bytes]:
    values = [b"%d" % number for number in range(count)]
    Confluent().produce(servers, topic, [Sent(value) for value in values])
    return values


def poll_until(consumers: Sequence[Any], agreed: Callable[[list[list[int]]], bool]) -> None:
    shares: list[list[int]] = []
    for _ in range(DEADLINE_S * 2):
        for consumer in consumers:
            # Not shorter: kafka-python loses an assignment that comes after a poll has timed out.
            consumer.poll(timeout_ms=500)
        shares = [partitions_of(consumer) for consumer in consumers]
        if agreed(shares):
            return
    raise AssertionError(f"no agreement: {shares}")


def partitions_of(consumer: Any) -> list[int]:
    return [part.partition for part in consumer.assignment()]


def is_split(shares: list[list[int]]) -> bool:
    return all(shares) and sorted(chain.from_iterable(shares)) == [0, 1, 2]


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, CooperativeStickyAssignor])
def test_kafka_python_members_share_and_inherit(
    servers: str, topic: str, group: str, assignor: type
) -> None:
    fill(servers, topic, 1)
    options = {**MANUAL, "partition_assignment_strategy": [assignor]}
    with kafka_python_consumer(servers, group, **options) as stays:
        with kafka_python_consumer(servers, group, **options) as leaves:
            # Each polls in a thread of its own, for a poll may wait for the other to join.
            stays.subscribe([topic])
            leaves.subscribe([topic])
            agreed = threading.Event()
            other = Background(lambda: poll_until([leaves], lambda _: agreed.is_set()))
            poll_until([stays], lambda shares: is_split([*shares, partitions_of(leaves)]))
            agreed.set()
            other.join()
        poll_until([stays], is_split)


def test_kafka_python_static_member_is_named_in_the_group(
    servers: str, topic: str, group: str
) -> None:
    fill(servers, topic, 1)
    with kafka_python_consumer(servers, group, group_instance_id="one", **MANUAL) as member:
        member.subscribe([topic])
        poll_until([member], is_split)
        admin = kafka.KafkaAdminClient(bootstrap_servers=servers)
        described = admin.describe_groups([group])
        admin.close()
    members = described[group]["members"]
    assert [each["group_instance_id"] for each in members] == ["one"]


def test_kafka_python_commits_seeks_and_finds_by_time(servers: str, topic: str, group: str) -> None:
    values = [b"%d" % number for number in range(30)]
    records = [Sent(value, timestamp_ms=1000 + place) for place, value in enumerate(values)]
    Confluent().produce(servers, topic, records)
    partition = kafka.TopicPartition(topic, 0)
    with kafka_python_consumer(servers, group, **MANUAL) as consumer:
        consumer.subscribe([topic])
        assert [each.value for each in next_records(consumer, 10)] == values[:10]
        consumer.commit()
        assert consumer.committed(partition) == 10
        consumer.seek(partition, 25)
        assert [each.value for each in next_records(consumer, 5)] == values[25:]
        assert consumer.offsets_for_times({partition: 1007})[partition].offset == 7
        assert consumer.offsets_for_times({partition: 5000})[partition] is None
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 30}
        consumer.pause(partition)
        consumer.seek(partition, 0)
        assert consumer.poll(timeout_ms=100) == {}
        consumer.resume(partition)
        assert [each.value for each in next_records(consumer, 30)] == values
    with kafka_python_consumer(servers, group) as consumer:
        consumer.subscribe([topic])
        assert [each.value for each in next_records(consumer, 5)] == values[10:15]
    # Auto-commit is on by default, and the last one happens when the consumer is closed.
    with kafka_python_consumer(servers, group, **MANUAL) as consumer:
        assert consumer.committed(partition) == 15


async def getmany(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    async with asyncio.timeout(DEADLINE_S):
        return [(await consumer.getone()).value for _ in range(count)]


def test_aiokafka_members_share_and_inherit(servers: str, topic: str, group: str) -> None:
    fill(servers, topic, 1)

    async def until(consumers: Sequence[AIOKafkaConsumer]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not is_split([partitions_of(consumer) for consumer in consumers]):
                for consumer in consumers:
                    await consumer.getmany(timeout_ms=20)

    async def run() -> None:
        options = {"bootstrap_servers": servers, "group_id": group, **MANUAL}
        async with AsyncExitStack() as stack:
            stays = await stack.enter_async_context(AIOKafkaConsumer(topic, **options))
            async with AIOKafkaConsumer(topic, **options) as leaves:
                await until([stays, leaves])
            await until([stays])

    run_async(run())


def test_aiokafka_commits_seeks_and_finds_by_time(servers: str, topic: str, group: str) -> None:
    values = [b"%d" % number for number in range(30)]
    records = [Sent(value, timestamp_ms=1000 + place) for place, value in enumerate(values)]
    Confluent().produce(servers, topic, records)
    partition = AioTopicPartition(topic, 0)
    options = {
        "bootstrap_servers": servers,
        "group_id": group,
        "auto_offset_reset": "earliest",
    }

    async def run() -> None:
        async with AIOKafkaConsumer(topic, **options, **MANUAL) as consumer:
            assert await getmany(consumer, 10) == values[:10]
            await consumer.commit()
            assert await consumer.committed(partition) == 10
            consumer.seek(partition, 25)
            assert await getmany(consumer, 5) == values[25:]
            found = await consumer.offsets_for_times({partition: 1007})
            assert found[partition].offset == 7
            assert await consumer.end_offsets([partition]) == {partition: 30}
            consumer.pause(partition)
            consumer.seek(partition, 0)
            assert await consumer.getmany(timeout_ms=100) == {}
            consumer.resume(partition)
            assert await getmany(consumer, 30) == values
        async with AIOKafkaConsumer(topic, **options) as consumer:
            assert await getmany(consumer, 5) == values[10:15]
        async with AIOKafkaConsumer(topic, **options, **MANUAL) as consumer:
            assert await consumer.committed(partition) == 15

    run_async(run())

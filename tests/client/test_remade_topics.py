"""A topic that is deleted and made again under the eyes of our own clients."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from semel import AsyncConsumer, AsyncProducer, Record
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.group_offsets import group_offsets
from semel.client.cluster.metadata import TopicRemade
from semel.client.columns.ranges import RecordsLost, fetch_regions
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.consuming.settings import ConsumerOptions
from semel.client.outcome import MustAbort
from semel.errors import OffsetOutOfRange
from semel.testing import Broker
from semel.types import TopicPartition
from support import topics


@pytest.fixture
def servers(semel_broker: Broker) -> str:
    return semel_broker.bootstrap_servers


@pytest.fixture
def topic(servers: str, request: pytest.FixtureRequest) -> str:
    name = topics.name_for(request)
    topics.create(servers, name)
    return name


def make_anew(servers: str, topic: str) -> None:
    topics.delete(servers, topic)
    topics.create(servers, topic)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def read(consumer: AsyncConsumer, count: int) -> list[Record]:
    records: list[Record] = []
    while len(records) < count:
        polled = await consumer.poll(30_000, count - len(records))
        assert polled, f"{len(records)} of {count} came"
        records += polled
    return records


@pytest.mark.parametrize("has_group", [False, True])
def test_a_consumer_reads_the_new_topic_from_where_auto_offset_reset_says(
    servers: str, topic: str, has_group: bool
) -> None:
    """By names alone it would go on at offset 3 of the new topic, and miss what is before."""

    async def work() -> None:
        topics.fill(servers, topic, [b"old"] * 3)
        group = topic if has_group else None
        async with AsyncConsumer(servers, group=group, auto_offset_reset="earliest") as consumer:
            if has_group:
                await consumer.subscribe([topic])
            else:
                consumer.assign([TopicPartition(topic, 0)])
            assert [each.value for each in await read(consumer, 3)] == [b"old"] * 3
            make_anew(servers, topic)
            values = [f"new {number}".encode() for number in range(5)]
            topics.fill(servers, topic, values)
            found = await read(consumer, 5)
            assert [each.value for each in found] == values
            assert [each.offset for each in found] == [0, 1, 2, 3, 4]

    run(work())


def test_a_consumer_that_may_not_choose_is_told(servers: str, topic: str) -> None:
    async def work() -> None:
        topics.fill(servers, topic, [b"old"] * 3)
        async with AsyncConsumer(servers, auto_offset_reset="none") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), 0)
            await read(consumer, 3)
            make_anew(servers, topic)
            topics.fill(servers, topic, [b"new"] * 5)
            with pytest.raises(OffsetOutOfRange, match="was deleted and made anew"):
                await consumer.poll(30_000)

    run(work())


def test_a_range_of_the_old_topic_is_not_read_from_the_new_one(servers: str, topic: str) -> None:
    async def work() -> None:
        topics.fill(servers, topic, [b"old"] * 2)
        partition = TopicPartition(topic, 0)
        async with Cluster(parse_bootstrap_servers(servers)) as cluster:
            regions = fetch_regions(cluster, partition, 0, 5)
            assert (await anext(regions)).next_offset == 2
            await asyncio.to_thread(make_anew, servers, topic)
            await asyncio.to_thread(topics.fill, servers, topic, [b"new"] * 5)
            with pytest.raises(RecordsLost, match="remade"):
                await anext(regions)

    run(work())


def test_a_transaction_that_has_lost_a_topic_is_aborted_and_the_next_one_is_whole(
    servers: str, topic: str
) -> None:
    other = f"{topic}-other"

    async def work() -> None:
        topics.create(servers, other)
        async with AsyncProducer(servers, transactional_id=topic) as producer:
            await producer.begin_transaction()
            await producer.send(topic, b"lost")
            await producer.send(other, b"lost")
            await producer.flush()
            make_anew(servers, topic)
            await producer.send(topic, b"too late")
            with pytest.raises(MustAbort) as refused:
                await producer.commit_transaction()
            assert isinstance(refused.value.__cause__, TopicRemade)
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send(topic, b"whole")
            await producer.send(other, b"whole")
            await producer.commit_transaction()

    run(work())
    assert topics.values(servers, topic) == [b"whole"]
    assert topics.values(servers, other) == [b"whole"]


def test_a_plain_producer_goes_on_in_the_new_topic(servers: str, topic: str) -> None:
    async def work() -> None:
        async with AsyncProducer(servers) as producer:
            for number in range(3):
                await producer.send(topic, f"old {number}".encode())
            await producer.flush()
            make_anew(servers, topic)
            for number in range(3):
                await producer.send(topic, f"new {number}".encode())
                await producer.flush()

    run(work())
    assert [one.value for one in topics.committed(servers, topic)] == [b"new 0", b"new 1", b"new 2"]


def test_what_was_read_of_the_old_topic_is_not_committed_for_the_new_one(
    servers: str, topic: str
) -> None:
    async def work() -> None:
        topics.fill(servers, topic, [b"old"] * 3)
        options: ConsumerOptions = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with AsyncConsumer(servers, group=topic, **options) as consumer:
            await consumer.subscribe([topic])
            await read(consumer, 3)
            make_anew(servers, topic)
            # It may have heard of the new topic meanwhile, and have nothing to commit yet.
            with suppress(TopicRemade):
                await consumer.commit()
        async with Cluster(parse_bootstrap_servers(servers)) as cluster:
            offsets = await group_offsets(cluster, topic)
        assert {position.offset for position in offsets.values()} <= {0}

    run(work())

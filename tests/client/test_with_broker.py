"""What a client asks of a Semel broker beside records: topics, offsets and groups."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from client.sending import send
from semel.client.admin import configs, groups, topics
from semel.client.admin.configs import ResourceType
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import beginnings_of, ends_of, offsets_at, offsets_at_or_end
from semel.client.connecting.address import parse_bootstrap_servers
from semel.errors import (
    GroupIdNotFound,
    InvalidPartitions,
    NetworkException,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from semel.records.records import Record
from semel.testing import Broker
from semel.types import TopicPartition

T = TypeVar("T")


def with_cluster(broker: Broker, scenario: Callable[[Cluster], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with Cluster(parse_bootstrap_servers(broker.bootstrap_servers)) as cluster:
            return await scenario(cluster)

    return asyncio.run(connected())


async def partition_count_becomes(cluster: Cluster, topic: str, count: int) -> bool:
    """Other brokers answer before all of them have heard of a change, so ask until they have."""
    while True:
        found = (await cluster.describe([topic])).topics.get(topic)
        if (len(found.partitions) if found else 0) == count:
            return True


async def retention_ms(cluster: Cluster, topic: str) -> str | None:
    described = await configs.describe(cluster, ResourceType.TOPIC, [topic])
    return {entry.name: entry.value for entry in described[topic]}["retention.ms"]


def test_a_topic_is_created_described_enlarged_and_deleted(semel_broker: Broker) -> None:
    async def scenario(cluster: Cluster) -> None:
        created = await topics.create(
            cluster, ["life"], partition_count=2, configs={"retention.ms": "1000"}
        )
        assert created == {"life": None}
        again = await topics.create(cluster, ["life"], partition_count=2)
        assert isinstance(again["life"], TopicAlreadyExists)
        assert await partition_count_becomes(cluster, "life", 2)
        assert await topics.enlarge(cluster, {"life": 3}) == {"life": None}
        smaller = await topics.enlarge(cluster, {"life": 1})
        assert isinstance(smaller["life"], InvalidPartitions)
        assert await partition_count_becomes(cluster, "life", 3)
        assert await retention_ms(cluster, "life") == "1000"
        await configs.alter(cluster, ResourceType.TOPIC, "life", {"retention.ms": "2000"})
        while await retention_ms(cluster, "life") != "2000":
            pass
        assert await topics.delete(cluster, ["life"]) == {"life": None}
        assert await partition_count_becomes(cluster, "life", 0)
        with pytest.raises(UnknownTopicOrPartition, match="topic life does not exist"):
            await cluster.topics(["life"])

    with_cluster(semel_broker, scenario)


def test_offsets_are_found_by_place_and_by_time(semel_broker: Broker) -> None:
    place = TopicPartition("times", 0)

    async def scenario(cluster: Cluster) -> None:
        await topics.create(cluster, ["times"], partition_count=1)
        times = [Record(None, b"", 1000 * i) for i in range(5)]
        await send(semel_broker.bootstrap_servers, "times", times)
        assert await beginnings_of(cluster, [place]) == {place: 0}
        assert await ends_of(cluster, [place]) == {place: 5}
        assert await offsets_at(cluster, {place: 2500}) == {place: 3}
        assert await offsets_at(cluster, {place: 9000}) == {place: -1}
        assert await offsets_at_or_end(cluster, [place], 9000) == {place: 5}

    with_cluster(semel_broker, scenario)


def test_offsets_of_a_group_are_set_shown_and_deleted(semel_broker: Broker) -> None:
    places = [TopicPartition("grouped", number) for number in range(2)]

    async def scenario(cluster: Cluster) -> None:
        await topics.create(cluster, ["grouped"], partition_count=2)
        assert await groups.committed_offsets(cluster, "moved") == {}
        await groups.commit_offsets(cluster, "moved", {places[0]: 0, places[1]: 0})
        assert await groups.committed_offsets(cluster, "moved") == dict.fromkeys(places, 0)
        assert "moved" in [listing.group_id for listing in await groups.list_all(cluster)]
        described = await groups.describe(cluster, "moved")
        assert (described.state, described.members) == ("Empty", ())
        outcomes = await groups.delete(cluster, ["moved", "never"])
        assert outcomes["moved"] is None
        assert isinstance(outcomes["never"], GroupIdNotFound)
        assert await groups.committed_offsets(cluster, "moved") == {}

    with_cluster(semel_broker, scenario)


def test_nobody_listening_is_said_with_the_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(parse_bootstrap_servers("127.0.0.1:1")):
            pass

    with pytest.raises(
        NetworkException, match=r"127.0.0.1:1 cannot be reached: connection refused"
    ):
        asyncio.run(scenario())

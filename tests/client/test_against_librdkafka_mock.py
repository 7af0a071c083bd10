"""The client against a cluster of three brokers that is not ours: librdkafka's mock."""

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer

from client.sending import send
from semel.client.admin import groups
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import ends_of
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.producing.partitioners import KeyHash
from semel.errors import UnsupportedVersion
from semel.records.compression import Compression
from semel.records.records import Record
from semel.types import TopicPartition
from support.stored import read_up_to


@pytest.fixture(scope="module")
def mock_servers() -> Iterator[str]:
    # The mock cluster lives in the client instance that made it.
    owner = ConfluentProducer(
        {"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0}
    )
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(1)


async def read_all(
    servers: str, cluster: Cluster, topic: str
) -> dict[TopicPartition, list[Record]]:
    places = [
        TopicPartition(topic, partition.partition)
        for partition in (await cluster.topics([topic]))[topic].partitions
    ]
    ends = await ends_of(cluster, places)
    return await read_up_to(servers, ends)


def test_records_go_round_over_several_leaders(mock_servers: str) -> None:
    records = [
        Record(b"key %d" % i, None if i % 10 == 0 else b"value %d" % i, 1000 + i, (("h", b"x"),))
        for i in range(200)
    ]

    async def scenario() -> dict[TopicPartition, list[Record]]:
        async with Cluster(parse_bootstrap_servers(mock_servers)) as cluster:
            for compression in Compression:
                part = records[compression::5]
                await send(mock_servers, "round", part, compression=compression)
            return await read_all(mock_servers, cluster, "round")

    read = asyncio.run(scenario())
    assert len(read) > 1
    for place, found in read.items():
        assert [record.offset for record in found] == list(range(len(found)))
        for record in found:
            partition = KeyHash.MURMUR2.partition_of(record.key or b"", len(read))
            assert partition == place.partition
    everything = [record._replace(offset=-1) for found in read.values() for record in found]
    assert sorted(everything, key=lambda r: r.timestamp_ms) == records


def test_librdkafka_reads_what_we_write(mock_servers: str) -> None:
    async def scenario() -> None:
        records = [Record(b"k", b"%d" % i, 1000, (("h", None),)) for i in range(100)]
        await send(mock_servers, "written", records, 1, compression=Compression.LZ4)

    asyncio.run(scenario())
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": mock_servers,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["written"])
    try:
        messages = consumer.consume(100, timeout=30)
    finally:
        consumer.close()
    assert [message.value() for message in messages] == [b"%d" % i for i in range(100)]
    assert {message.key() for message in messages} == {b"k"}
    assert messages[0].headers() == [("h", None)]


def test_an_api_that_a_broker_lacks_is_named(mock_servers: str) -> None:
    async def scenario() -> None:
        async with Cluster(parse_bootstrap_servers(mock_servers)) as cluster:
            await groups.list_all(cluster)

    with pytest.raises(UnsupportedVersion, match="ListGroups"):
        asyncio.run(scenario())

"""What a broker has stored, read by a consumer that knows nothing of the producer under test."""

import asyncio
from collections.abc import Mapping

from semel import AsyncConsumer
from semel.client.admin.groups import committed_offsets
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, ends_of
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.consuming.settings import ConsumerOptions
from semel.records.records import Record
from semel.testing import Broker
from semel.types import TopicPartition

_POLL_MS = 50
"""What lies before the end may be nothing but markers, which no poll gives a sign of."""


async def read_up_to(
    servers: str, ends: Mapping[TopicPartition, int], isolation: str = "read_uncommitted"
) -> dict[TopicPartition, list[Record]]:
    """All records of these partitions that are before these offsets."""
    options: ConsumerOptions = {"isolation": isolation, "auto_offset_reset": "earliest"}
    found: dict[TopicPartition, list[Record]] = {place: [] for place in ends}
    left = {place for place, end in ends.items() if end}
    async with AsyncConsumer(servers, **options) as consumer:
        while left:
            consumer.assign(left)
            for each in await consumer.poll(_POLL_MS):
                if each.offset < ends[each.topic_partition]:
                    record = Record(
                        each.key, each.value, each.timestamp_ms, each.headers, each.offset
                    )
                    found[each.topic_partition].append(record)
            left = {place for place in left if await consumer.position(place) < ends[place]}
    return found


def stored(broker: Broker, topic: str, *, is_committed_only: bool = False) -> list[list[Record]]:
    """The records of each partition of the topic, up to where it ends now."""
    isolation = Isolation.READ_COMMITTED if is_committed_only else Isolation.READ_UNCOMMITTED

    async def read() -> list[list[Record]]:
        async with Cluster(parse_bootstrap_servers(broker.bootstrap_servers)) as cluster:
            count = len((await cluster.topics([topic]))[topic].partitions)
            places = [TopicPartition(topic, number) for number in range(count)]
            ends = await ends_of(cluster, places, isolation)
            found = await read_up_to(broker.bootstrap_servers, ends, isolation.name.lower())
            return [found[place] for place in places]

    return asyncio.run(read())


def numbers(broker: Broker, topic: str, *, is_committed_only: bool = False) -> list[list[int]]:
    partitions = stored(broker, topic, is_committed_only=is_committed_only)
    return [[int(record.value or b"") for record in records] for records in partitions]


def group_offsets(broker: Broker, group_id: str) -> dict[TopicPartition, int]:
    async def ask() -> dict[TopicPartition, int]:
        async with Cluster(parse_bootstrap_servers(broker.bootstrap_servers)) as cluster:
            return await committed_offsets(cluster, group_id)

    return asyncio.run(ask())

"""What went into the topics of an application and what came out of them, as others see it."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from semel.client.admin.groups import committed_offsets
from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import parse_bootstrap_servers
from semel.testing import Broker
from semel.types import TopicPartition
from support.topics import create, fill, name_for

PARTITION_COUNT = 2


class Topics(NamedTuple):
    """One to read, one to write, one for dead letters."""

    servers: str
    source: str
    target: str
    dead: str
    group: str


def topics_for(servers: str, name: str) -> Topics:
    made = Topics(servers, f"{name}-in", f"{name}-out", f"{name}-dead", f"{name}-group")
    for topic in (made.source, made.target, made.dead):
        create(servers, topic, PARTITION_COUNT)
    return made


@pytest.fixture
def topics(semel_broker: Broker, request: pytest.FixtureRequest) -> Topics:
    return topics_for(semel_broker.bootstrap_servers, name_for(request))


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(start, start + count)]


def spread(
    servers: str,
    topic: str,
    values: Sequence[bytes],
    headers: list[tuple[str, bytes]] | None = None,
) -> None:
    """One after the other into the partitions in turn."""
    for partition in range(PARTITION_COUNT):
        fill(servers, topic, values[partition::PARTITION_COUNT], partition, headers=headers)


def group_offsets(servers: str, group: str) -> dict[TopicPartition, int]:
    async def asked() -> dict[TopicPartition, int]:
        async with Cluster(parse_bootstrap_servers(servers)) as cluster:
            return await committed_offsets(cluster, group)

    return asyncio.run(asked())

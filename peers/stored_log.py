"""What a broker stores of a topic, and waiting until that is as expected."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from semel.client.admin.transaction_history import stored_batches
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import beginnings_of, ends_of
from semel.client.connecting.address import parse_bootstrap_servers
from semel.testing import Broker
from semel.types import TopicPartition
from semel.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from support.raw_client import RawClient

_PAUSE_S = 0.2
_LOOKS_MAX = 600

_Seen = TypeVar("_Seen")


class StoredLog(NamedTuple):
    """Of one partition."""

    start: int
    end: int
    record_count: int
    """Markers included."""
    batch_bytes: int


def stored(broker: Broker, topic: str, partition_count: int) -> list[StoredLog]:
    """What a reader from the start is given of each partition."""

    async def look() -> list[StoredLog]:
        async with Cluster(parse_bootstrap_servers(broker.bootstrap_servers)) as cluster:
            return [await _stored(cluster, each) for each in places]

    places = [TopicPartition(topic, number) for number in range(partition_count)]
    return asyncio.run(look())


async def _stored(cluster: Cluster, place: TopicPartition) -> StoredLog:
    start = (await beginnings_of(cluster, [place]))[place]
    end = (await ends_of(cluster, [place]))[place]
    record_count = batch_bytes = 0
    async for batch in stored_batches(cluster, place, start, end):
        record_count += batch.header.record_count
        batch_bytes += len(batch.content)
    return StoredLog(start, end, record_count, batch_bytes)


def size_on_disk(broker: Broker, topic: str) -> int:
    """Of all its partitions, as DescribeLogDirs tells it."""
    with RawClient(broker) as client:
        (directory,) = client.call("describe_log_dirs", 4, DescribeLogDirsRequest()).results
    (found,) = [each for each in directory.topics if each.name == topic]
    return sum(each.partition_size for each in found.partitions)


def eventually(look: Callable[[], _Seen], holds: Callable[[_Seen], bool]) -> _Seen:
    """What was seen when it was as expected: another process gets there when it does."""
    for _ in range(_LOOKS_MAX):
        seen = look()
        if holds(seen):
            return seen
        time.sleep(_PAUSE_S)
    raise AssertionError(f"{seen} after {_LOOKS_MAX} looks")

"""How far a reader is behind: in offsets, and in time by the first record it has not read."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from semel.client.admin.transaction_history import stored_batches
from semel.client.cluster.calls import together
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, ends_of
from semel.errors import RequestError
from semel.types import TopicPartition

_FETCH_SIZE = 1024
"""A broker gives a whole batch at least: only its header is looked at."""
_ASKED_AT_ONCE = 16


class PartitionLag(NamedTuple):
    topic: str
    partition: int
    offset: int
    """Where the reader goes on."""
    end: int
    """Up to where it may read."""
    waiting_since_ms: int | None
    """When the first record came that it has not read; None if it has read all."""

    @property
    def lag(self) -> int:
        """In offsets: some of them may belong to no record."""
        return max(0, self.end - self.offset)

    def behind_ms(self, now_ms: int) -> int:
        return 0 if self.waiting_since_ms is None else max(0, now_ms - self.waiting_since_ms)


async def lags(
    cluster: Cluster,
    offsets: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> list[PartitionLag]:
    """Of those partitions that exist."""
    described = (await cluster.describe({each.topic for each in offsets})).topics
    existing = {each for topic in described.values() for each in topic.topic_partitions}
    ends = await ends_of(cluster, [each for each in offsets if each in existing], isolation)
    waits = await waiting_since(cluster, offsets, ends)
    return [
        PartitionLag(*partition, offsets[partition], end, waits.get(partition))
        for partition, end in sorted(ends.items())
    ]


async def waiting_since(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Of each partition with records in between, the time of the first of them."""
    at_once = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def look(partition: TopicPartition, end: int) -> tuple[TopicPartition, int | None]:
        async with at_once:
            return partition, await _first_time(cluster, partition, offsets[partition], end)

    behind = [(each, end) for each, end in ends.items() if offsets.get(each, end) < end]
    found = await together(look(*each) for each in behind)
    return {partition: time_ms for partition, time_ms in found if time_ms is not None}


async def _first_time(
    cluster: Cluster, partition: TopicPartition, offset: int, end: int
) -> int | None:
    try:
        async for batch in stored_batches(cluster, partition, offset, end, _FETCH_SIZE):
            # Of an older part of its batch the reader may have read some: it is at most as late.
            if not batch.header.is_control and batch.header.last_offset >= offset:
                return batch.header.base_timestamp_ms
    except RequestError:
        return None  # Deleted, or moving, in between.
    return None

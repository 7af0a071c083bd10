"""Offsets by place or time: where partitions begin and end, and what stood there at a moment."""

import enum
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from operator import index
from typing import SupportsIndex

from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError
from semel.types import TopicPartition
from semel.wire.messages import list_offsets

LATEST_MS = -1
"""Stands for the end of a partition where a timestamp is asked for."""
EARLIEST_MS = -2
"""Stands for its beginning."""

OFFSET_MAX = 2**63 - 1

_CONSUMER = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Isolation(enum.IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def as_time_ms(time: int | datetime) -> int:
    """Milliseconds since 1970, given as such or as a datetime: local unless it has a zone."""
    if isinstance(time, datetime):
        return (time.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    try:
        return index(time)
    except TypeError:
        raise TypeError(
            f"a time is a datetime or whole milliseconds since 1970, not {time!r}"
        ) from None


def as_offsets(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """As the application names them: pairs of a topic and a number will do as partitions."""
    if not isinstance(offsets, Mapping):
        raise ConfigError(
            f"offsets are a dictionary of TopicPartition and offset, not {offsets!r:.100}"
        )
    named = {}
    for partition, offset in offsets.items():
        try:
            named_as, whole = _as_topic_partition(*partition), index(offset)
        except TypeError:
            raise ConfigError(
                f"an offset is a whole number for a TopicPartition, not {offset!r} for "
                f"{partition!r}"
            ) from None
        if abs(whole) > OFFSET_MAX:
            raise ConfigError(f"the offset of {named_as} is {whole}: no log has so many records")
        named[named_as] = whole
    return named


def _as_topic_partition(topic: object, number: SupportsIndex) -> TopicPartition:
    if not isinstance(topic, str):
        raise TypeError(f"a topic is named by a str, not {topic!r}")
    return TopicPartition(topic, index(number))


def as_committable(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """As `as_offsets`, where a reader can go on."""
    named = as_offsets(offsets)
    for partition, offset in named.items():
        if offset < 0:
            raise ConfigError(f"the offset of {partition} is {offset}: it cannot be negative")
    return named


async def offsets_at(
    cluster: Cluster,
    timestamps_ms: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """The offset of the first record at or after each timestamp; -1 where there is none."""

    async def attempt() -> dict[TopicPartition, int]:
        leaders = await cluster.leaders_of(timestamps_ms.keys())
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition, leader_id in leaders.items():
            by_leader[leader_id].append(partition)
        found: dict[TopicPartition, int] = {}
        for leader_id, partitions in by_leader.items():
            request = _request({each: timestamps_ms[each] for each in partitions}, isolation)
            found |= _offsets(await cluster.call(leader_id, list_offsets, request))
        return found

    return await cluster.retry(attempt) if timestamps_ms else {}


async def beginnings_of(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    return await offsets_at(cluster, dict.fromkeys(partitions, EARLIEST_MS))


async def ends_of(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    return await offsets_at(cluster, dict.fromkeys(partitions, LATEST_MS), isolation)


async def offsets_at_or_end(
    cluster: Cluster,
    partitions: Collection[TopicPartition],
    timestamp_ms: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """As `offsets_at`, with the end of a partition that has nothing so young."""
    found = await offsets_at(cluster, dict.fromkeys(partitions, timestamp_ms), isolation)
    too_old = [partition for partition, offset in found.items() if offset < 0]
    return found | await ends_of(cluster, too_old, isolation)


def _request(
    timestamps_ms: Mapping[TopicPartition, int], isolation: Isolation
) -> list_offsets.ListOffsetsRequest:
    topics: dict[str, list[list_offsets.ListOffsetsPartition]] = defaultdict(list)
    for (topic, partition), timestamp_ms in timestamps_ms.items():
        topics[topic].append(
            list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=timestamp_ms)
        )
    return list_offsets.ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=isolation,
        topics=[
            list_offsets.ListOffsetsTopic(name, partitions) for name, partitions in topics.items()
        ],
    )


def _offsets(reply: list_offsets.ListOffsetsResponse) -> dict[TopicPartition, int]:
    offsets = {}
    for topic in reply.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            raise_for(answer.error_code, f"offsets of {partition}")
            offsets[partition] = answer.offset
    return offsets

"""Bounds of a query turned into offsets: what the partitions hold at this moment."""

from collections.abc import Collection

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, beginnings_of, ends_of, offsets_at
from semel.errors import ConfigError
from semel.spark.bounds import EARLIEST, LATEST, Bound, Missing
from semel.types import TopicPartition


async def offsets_of(
    cluster: Cluster,
    bound: Bound,
    partitions: Collection[TopicPartition],
    isolation: Isolation,
) -> dict[TopicPartition, int]:
    """Where this bound cuts each partition."""
    if bound.timestamp_ms is not None:
        timestamps_ms = dict.fromkeys(partitions, bound.timestamp_ms)
        return await _at_timestamps(cluster, bound, timestamps_ms, isolation)
    if bound.offset is not None:
        return await _resolved(cluster, dict.fromkeys(partitions, bound.offset), isolation)
    assert bound.named is not None
    if set(bound.named) != set(partitions):
        raise ConfigError(_unlike(bound, partitions))
    if bound.timestamps_ms is not None:
        return await _at_timestamps(cluster, bound, dict(bound.timestamps_ms), isolation)
    return await _resolved(cluster, dict(bound.named), isolation)


async def _resolved(
    cluster: Cluster, offsets: dict[TopicPartition, int], isolation: Isolation
) -> dict[TopicPartition, int]:
    earliest = [partition for partition, offset in offsets.items() if offset == EARLIEST]
    latest = [partition for partition, offset in offsets.items() if offset == LATEST]
    return (
        offsets | await beginnings_of(cluster, earliest) | await ends_of(cluster, latest, isolation)
    )


async def _at_timestamps(
    cluster: Cluster,
    bound: Bound,
    timestamps_ms: dict[TopicPartition, int],
    isolation: Isolation,
) -> dict[TopicPartition, int]:
    # ListOffsets takes these two for the ends of a partition, and so do Spark's users.
    found = await offsets_at(cluster, timestamps_ms, isolation)
    missing = [partition for partition, offset in found.items() if offset < 0]
    if missing and bound.missing is Missing.REFUSE:
        first = missing[0]
        raise ConfigError(
            f"option {bound.option}: {first} has no record at or after {timestamps_ms[first]} ms; "
            f"set startingOffsetsByTimestampStrategy to latest to begin at its end"
        )
    return found | await ends_of(cluster, missing, isolation)


def _unlike(bound: Bound, partitions: Collection[TopicPartition]) -> str:
    named = set(bound.named or {})
    absent = ", ".join(map(str, sorted(set(partitions) - named)))
    strange = ", ".join(map(str, sorted(named - set(partitions))))
    reasons = [
        reason
        for names, reason in (
            (absent, f"{absent} is missing (-2 means earliest, -1 latest)"),
            (strange, f"{strange} is not read by this query"),
        )
        if names
    ]
    return f"option {bound.option}: {'; '.join(reasons)}"

"""The exactly-once queries of a cluster, as their markers and groups show them from outside.

Needs no Spark, and nothing of a query but that it has written once.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

from semel.client.admin.groups import list_all
from semel.client.admin.lag import PartitionLag, lags
from semel.client.cluster.calls import together
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.group_offsets import group_offsets
from semel.client.producing.coordination import GroupOffset
from semel.errors import GroupAuthorizationFailed
from semel.spark.marker import BatchMarker, SinkConflict, read_marker
from semel.types import TopicPartition

_ASKED_AT_ONCE = 16
_APART = "-sink-"
"""Stands in the name of a group that holds nothing but a marker."""

Offsets = Mapping[TopicPartition, GroupOffset]


class Pipeline(NamedTuple):
    group: str
    """That of its marker."""
    offsets_group: str
    """That of what it has consumed."""
    marker: BatchMarker
    consumed: tuple[PartitionLag, ...]
    """Empty if it reads no topics of this cluster, or publishes no offsets."""

    @property
    def name(self) -> str:
        return self.marker.query_name or self.group

    @property
    def lag(self) -> int | None:
        return sum(each.lag for each in self.consumed) if self.consumed else None

    def behind_ms(self, now_ms: int) -> int | None:
        return max((each.behind_ms(now_ms) for each in self.consumed), default=None)

    @property
    def rows_per_s(self) -> float | None:
        """From the commit before the last one to that."""
        written = self.marker.written
        span_ms = written.at_ms - written.since_ms
        return written.rows * 1000 / span_ms if written.since_ms and span_ms > 0 else None


async def find_pipelines(cluster: Cluster) -> list[Pipeline]:
    """Those of all groups that this user may see."""
    listed = {each.group_id for each in await list_all(cluster)}
    offsets = await _offsets_of(cluster, listed)
    at_once = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def look(group: str, marker: BatchMarker) -> Pipeline:
        apart = offsets_group_of(group, marker)
        consumed = _without_markers(offsets.get(apart, {}))
        async with at_once:
            return Pipeline(group, apart, marker, tuple(await lags(cluster, consumed)))

    found = await together(
        look(group, marker)
        for group, committed in offsets.items()
        for marker in markers_among(committed)
    )
    return sorted(found, key=lambda each: (each.name, each.group))


async def groups_of(cluster: Cluster, query_id: str) -> list[str]:
    """Those that hold markers of this query."""
    offsets = await _offsets_of(cluster, {each.group_id for each in await list_all(cluster)})
    return [
        group
        for group, committed in offsets.items()
        if any(each.query_id == query_id for each in markers_among(committed))
    ]


async def find_markers_of(
    cluster: Cluster, query_id: str, groups: Collection[str]
) -> list[tuple[str, BatchMarker]]:
    return [
        (group, marker)
        for group, committed in (await _offsets_of(cluster, groups)).items()
        for marker in markers_among(committed)
        if marker.query_id == query_id
    ]


def markers_among(committed: Offsets) -> list[BatchMarker]:
    return [marker for at in committed.values() if (marker := marker_in(at)) is not None]


def marker_in(at: GroupOffset) -> BatchMarker | None:
    """None of an offset that was consumed, whoever has committed it."""
    if not at.metadata.startswith("{"):
        return None
    try:
        return read_marker(at.offset, at.metadata)
    except SinkConflict:
        return None


def offsets_group_of(group: str, marker: BatchMarker) -> str:
    """Version 0.2 did not say it: there it followed from the name."""
    if marker.offsets_group:
        return marker.offsets_group
    prefix, apart, transactional_id = group.partition(_APART)
    if not apart:
        return group
    return transactional_id if prefix == "semel" else f"{prefix}-{transactional_id}"


async def _offsets_of(cluster: Cluster, groups: Collection[str]) -> dict[str, Offsets]:
    at_once = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def ask(group: str) -> tuple[str, Offsets]:
        async with at_once:
            try:
                return group, await group_offsets(cluster, group, is_stable=False)
            except GroupAuthorizationFailed:
                return group, {}

    return dict(await together(ask(group) for group in sorted(groups)))


def _without_markers(committed: Offsets) -> dict[TopicPartition, int]:
    return {partition: at.offset for partition, at in committed.items() if marker_in(at) is None}

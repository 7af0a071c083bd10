"""Where the marker of a sink stands: in the group of its query, or where an older sink put it.

A query leaves one group, which carries its name and holds what it has consumed; the marker stands
in it, at a topic without records, so that tools that show lag find none there. Where that topic
cannot be had, or the user has named another, the marker has a group of its own.

The law: a query goes on where its marker was found, under whichever name. Only one that has none
anywhere begins at the first of its homes.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from semel.client.admin.groups import list_all
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.group_offsets import STABLE_VERSION_MIN, group_offsets
from semel.errors import (
    GroupAuthorizationFailed,
    RequestError,
    UnsupportedVersion,
)
from semel.spark.marker import NO_QUERY, BatchMarker, read_marker
from semel.spark.sink_settings import MARKER_TOPIC_DEFAULT, SinkSettings
from semel.types import TopicPartition
from semel.wire.messages import offset_fetch

_log = logging.getLogger(__name__)

_PATIENCE_MS = 5_000
"""For a topic that the cluster may or may not create."""


class MarkerHome(NamedTuple):
    group: str
    partition: TopicPartition
    offsets_group: str
    """Of what the query has consumed."""


class FoundMarker(NamedTuple):
    home: MarkerHome
    marker: BatchMarker | None


def group_of(settings: SinkSettings, transactional_id: str, batch: BatchMarker) -> str:
    """Of a query that begins now: its name, and of its id what tells it from its namesakes."""
    prefix = settings.group_prefix or "semel"
    sink = _sink_of(transactional_id, batch)
    if sink is None:
        return f"{prefix}-{transactional_id}"
    if not batch.query_name:
        return f"{prefix}-{batch.query_id}{sink}"
    return f"{prefix}-{batch.query_name}-{_short(batch.query_id)}{sink}"


def named_home(settings: SinkSettings, transactional_id: str, batch: BatchMarker) -> MarkerHome:
    group = group_of(settings, transactional_id, batch)
    partition = TopicPartition(MARKER_TOPIC_DEFAULT, 0)
    return MarkerHome(group, partition, settings.offsets_group or group)


def apart_home(settings: SinkSettings, transactional_id: str) -> MarkerHome:
    """In a group of its own, at a topic that is written to."""
    return MarkerHome(
        settings.marker_group_of(transactional_id),
        settings.marker_partition,
        settings.offsets_group_of(transactional_id),
    )


async def find_marker(
    cluster: Cluster, settings: SinkSettings, transactional_id: str, batch: BatchMarker
) -> FoundMarker:
    """The marker of this query, and its home; or where it is to be from now on."""
    await _check_stable(cluster, settings.marker_group_of(transactional_id))
    apart = apart_home(settings, transactional_id)
    homes = [apart]
    # Jobs consume nothing, and those that number their batches alike may write to other topics.
    if settings.marker_topic is None and batch.query_id != NO_QUERY:
        homes.insert(0, named_home(settings, transactional_id, batch))
    found, refusals = await _markers_in(cluster, homes)
    if not any(_is_own(each, batch) for each in found) and batch.batch_id > 0:
        others = await _renamed(cluster, settings, transactional_id, batch)
        found += (await _markers_in(cluster, [each for each in others if each not in homes]))[0]
    own = [each for each in found if _is_own(each, batch)]
    if own:
        return max(own, key=_batch_id)
    if found:
        return found[0]
    for home in homes:
        if home.group not in refusals and await _may_stand_at(cluster, home):
            return FoundMarker(home, None)
    raise refusals.get(apart.group) or next(iter(refusals.values()))


async def stored_marker(cluster: Cluster, home: MarkerHome) -> BatchMarker | None:
    """The marker as the last committed transaction left it."""
    at = (await group_offsets(cluster, home.group, [home.partition])).get(home.partition)
    return None if at is None else read_marker(at.offset, at.metadata)


async def _check_stable(cluster: Cluster, group: str) -> None:
    async def version() -> int:
        return await cluster.version_of(await cluster.coordinator_of(group), offset_fetch)

    if await cluster.retry(version) < STABLE_VERSION_MIN:
        raise UnsupportedVersion(
            "exactly-once needs brokers that tell stable offsets from pending ones "
            "(OffsetFetch 7, Kafka 2.5 and newer): set delivery to at-least-once for this one"
        )


async def _markers_in(
    cluster: Cluster, homes: Sequence[MarkerHome]
) -> tuple[list[FoundMarker], dict[str, GroupAuthorizationFailed]]:
    """Access lists may know the groups of the one kind only."""
    found, refusals = [], {}
    for home in homes:
        try:
            marker = await stored_marker(cluster, home)
        except GroupAuthorizationFailed as refusal:
            refusals[home.group] = refusal
        else:
            if marker is not None:
                found.append(FoundMarker(home, marker))
    return found, refusals


async def _renamed(
    cluster: Cluster, settings: SinkSettings, transactional_id: str, batch: BatchMarker
) -> list[MarkerHome]:
    """Groups of this query under another name, as far as the cluster shows them."""
    sink = _sink_of(transactional_id, batch)
    if sink is None or settings.marker_topic is not None:
        return []
    try:
        groups = await list_all(cluster)
    except RequestError as refusal:
        _log.warning("groups under other names of the query are not looked for: %s", refusal)
        return []
    endings = (f"-{_short(batch.query_id)}{sink}", f"-{batch.query_id}{sink}")
    partition = TopicPartition(MARKER_TOPIC_DEFAULT, 0)
    return [
        MarkerHome(each.group_id, partition, settings.offsets_group or each.group_id)
        for each in groups
        if each.group_id.endswith(endings)
    ]


async def _may_stand_at(cluster: Cluster, home: MarkerHome) -> bool:
    """Whether the topic is there, or can be had; one that is written to is made elsewhere."""
    if home.partition.topic != MARKER_TOPIC_DEFAULT:
        return True
    try:
        await cluster.topic_to_write(home.partition.topic, _PATIENCE_MS)
    except RequestError as refusal:
        _log.warning(
            "the group of this query is told apart from its marker's, as topic %s cannot be had: "
            "%s",
            home.partition.topic,
            refusal,
        )
        return False
    return True


def _sink_of(transactional_id: str, batch: BatchMarker) -> str | None:
    """How the groups of this sink end; None where the user has named the transactional id."""
    own = f"semel-{batch.query_id}-"
    if not transactional_id.startswith(own):
        return None
    name = transactional_id.removeprefix(own)
    return "" if name == "sink" else f"-{name}"


def _short(query_id: str) -> str:
    return query_id.partition("-")[0]


def _is_own(found: FoundMarker, batch: BatchMarker) -> bool:
    return found.marker is not None and found.marker.query_id == batch.query_id


def _batch_id(found: FoundMarker) -> int:
    assert found.marker is not None, "asked of those that were found"
    return found.marker.batch_id

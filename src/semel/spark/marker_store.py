"""Where the marker is kept: a consumer group's offset, read only when nothing of it is pending."""

from typing import NamedTuple

from semel.client.cluster import Cluster
from semel.client.group_offsets import STABLE_VERSION_MIN, group_offsets
from semel.errors import UnsupportedVersion
from semel.spark.marker import Marker, marker_group, read_marker
from semel.types import TopicPartition
from semel.wire.messages import offset_fetch


class StoredMarker(NamedTuple):
    marker: Marker
    place: TopicPartition


async def stored_marker(
    cluster: Cluster, transactional_id: str, query_id: str, place: TopicPartition | None
) -> StoredMarker | None:
    """The marker as the last committed transaction left it; without a place, wherever it is."""
    group = marker_group(transactional_id)

    async def version() -> int:
        return await cluster.version_of(await cluster.coordinator_of(group), offset_fetch)

    if await cluster.retry(version) < STABLE_VERSION_MIN:
        raise UnsupportedVersion(
            "exactly-once needs brokers that tell stable offsets from pending ones "
            "(OffsetFetch 7, Kafka 2.5 and newer): set delivery to at-least-once for this one"
        )
    offsets = await group_offsets(cluster, group, None if place is None else [place])
    stored = [
        StoredMarker(read_marker(at.offset, at.metadata), found) for found, at in offsets.items()
    ]
    # There are several if a place was named for some time: this query goes on with its own.
    return max(
        stored,
        key=lambda each: (each.marker.query_id == query_id, each.marker.batch_id),
        default=None,
    )

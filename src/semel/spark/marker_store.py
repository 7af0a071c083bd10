"""Where the marker is kept: a consumer group's offset, read only when nothing of it is pending."""

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.group_offsets import STABLE_VERSION_MIN, group_offsets
from semel.errors import UnsupportedVersion
from semel.spark.marker import Marker, read_marker
from semel.spark.sink_settings import SinkSettings
from semel.wire.messages import offset_fetch


async def stored_marker(
    cluster: Cluster, settings: SinkSettings, transactional_id: str
) -> Marker | None:
    """The marker as the last committed transaction left it."""
    group, place = settings.marker_group_of(transactional_id), settings.marker_place

    async def version() -> int:
        return await cluster.version_of(await cluster.coordinator_of(group), offset_fetch)

    if await cluster.retry(version) < STABLE_VERSION_MIN:
        raise UnsupportedVersion(
            "exactly-once needs brokers that tell stable offsets from pending ones "
            "(OffsetFetch 7, Kafka 2.5 and newer): set delivery to at-least-once for this one"
        )
    at = (await group_offsets(cluster, group, [place])).get(place)
    return None if at is None else read_marker(at.offset, at.metadata)

"""Where the marker is kept: a consumer group's offset, read only when nothing of it is pending."""

from semel.client.cluster import Cluster
from semel.client.refusal import raise_for
from semel.errors import UnsupportedVersion
from semel.spark.marker import Marker, marker_group, read_marker
from semel.types import TopicPartition
from semel.wire.messages import offset_fetch

_STABLE_VERSION_MIN = 7


async def stored_marker(
    cluster: Cluster, transactional_id: str, place: TopicPartition
) -> Marker | None:
    """The marker as the last committed transaction left it."""
    group = marker_group(transactional_id)
    topics = [offset_fetch.OffsetFetchRequestTopic(place.topic, [place.partition])]
    grouped = [offset_fetch.OffsetFetchRequestTopics(place.topic, [place.partition])]
    request = offset_fetch.OffsetFetchRequest(
        group_id=group,
        topics=topics,
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=grouped)],
        require_stable=True,
    )

    async def attempt() -> Marker | None:
        coordinator_id = await cluster.coordinator_of(group)
        if await cluster.version_of(coordinator_id, offset_fetch) < _STABLE_VERSION_MIN:
            raise UnsupportedVersion(
                "exactly-once needs brokers that tell stable offsets from pending ones "
                "(OffsetFetch 7, Kafka 2.5 and newer): set delivery to at-least-once for this one"
            )
        reply = await cluster.call(coordinator_id, offset_fetch, request)
        # Since version 8 the reply is a list of groups.
        answer = reply.groups[0] if reply.groups else reply
        raise_for(answer.error_code, f"offsets of group {group}")
        for topic in answer.topics:
            for partition in topic.partitions:
                raise_for(partition.error_code, f"offset of group {group} in {place}")
                return read_marker(partition.committed_offset, partition.metadata)
        return None

    return await cluster.retry(attempt)

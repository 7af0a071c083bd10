"""What a group has committed for good: no open transaction can still change it."""

from collections import defaultdict
from collections.abc import Collection

from semel.client.cluster import Cluster
from semel.client.coordination import GroupOffset
from semel.client.refusal import raise_for
from semel.errors import UnsupportedVersion
from semel.types import TopicPartition
from semel.wire.messages import offset_fetch

_STABLE_VERSION_MIN = 7
_NO_OFFSET = -1


async def stable_offsets(
    cluster: Cluster, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, GroupOffset]:
    """Those of these partitions that the group has offsets of; waits for open transactions."""
    coordinator_id = await cluster.coordinator_of(group_id)
    if await cluster.version_of(coordinator_id, offset_fetch) < _STABLE_VERSION_MIN:
        raise UnsupportedVersion(
            "the cluster cannot tell whether an offset is final: it takes Kafka 2.5 or later"
        )
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    request = offset_fetch.OffsetFetchRequest(
        group_id=group_id,
        topics=[offset_fetch.OffsetFetchRequestTopic(*each) for each in topics.items()],
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group_id,
                [offset_fetch.OffsetFetchRequestTopics(*each) for each in topics.items()],
            )
        ],
        require_stable=True,
    )

    async def attempt() -> dict[TopicPartition, GroupOffset]:
        reply = await cluster.call_coordinator(group_id, offset_fetch, request)
        # Since version 8 the reply is a list of groups.
        answer = reply.groups[0] if reply.groups else reply
        raise_for(answer.error_code, f"offsets of group {group_id}")
        found = {}
        for topic in answer.topics:
            for at in topic.partitions:
                place = TopicPartition(topic.name, at.partition_index)
                raise_for(at.error_code, f"offset of group {group_id} in {place}")
                if at.committed_offset != _NO_OFFSET:
                    found[place] = GroupOffset(
                        at.committed_offset, at.metadata or "", at.committed_leader_epoch
                    )
        return found

    return await cluster.retry(attempt)

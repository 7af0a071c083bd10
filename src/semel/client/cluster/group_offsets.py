"""The offsets that a group has committed, as its coordinator tells them."""

from collections import defaultdict
from collections.abc import Collection

from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.client.producing.coordination import GroupOffset
from semel.types import TopicPartition
from semel.wire.messages import offset_fetch

STABLE_VERSION_MIN = 7
"""Of OffsetFetch; brokers before it cannot tell what is committed from what is pending."""
_NO_OFFSET = -1


async def group_offsets(
    cluster: Cluster,
    group_id: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    is_stable: bool = True,
) -> dict[TopicPartition, GroupOffset]:
    """Those of these partitions (None: of any) that the group has offsets of.

    With `is_stable` open transactions that may change them are waited for (KIP-447).
    """
    request = _request(group_id, partitions, is_stable=is_stable)

    async def attempt() -> dict[TopicPartition, GroupOffset]:
        reply = await cluster.call_coordinator(group_id, offset_fetch, request)
        # Since version 8 the reply is a list of groups.
        answer = reply.groups[0] if reply.groups else reply
        raise_for(answer.error_code, f"offsets of group {group_id}")
        offsets = {}
        for topic in answer.topics:
            for at in topic.partitions:
                partition = TopicPartition(topic.name, at.partition_index)
                raise_for(at.error_code, f"offset of group {group_id} in {partition}")
                if at.committed_offset != _NO_OFFSET:
                    offsets[partition] = GroupOffset(
                        at.committed_offset, at.metadata or "", at.committed_leader_epoch
                    )
        return offsets

    return await cluster.retry(attempt)


def _request(
    group_id: str, partitions: Collection[TopicPartition] | None, *, is_stable: bool
) -> offset_fetch.OffsetFetchRequest:
    """Asks in both forms: for one group, and since version 8 for a list of groups."""
    group = offset_fetch.OffsetFetchRequestGroup(group_id=group_id, topics=None)
    request = offset_fetch.OffsetFetchRequest(
        group_id=group_id, topics=None, groups=[group], require_stable=is_stable
    )
    if partitions is not None:
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            topics[topic].append(partition)
        request.topics = [offset_fetch.OffsetFetchRequestTopic(*each) for each in topics.items()]
        group.topics = [offset_fetch.OffsetFetchRequestTopics(*each) for each in topics.items()]
    return request

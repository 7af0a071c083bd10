"""The offsets that a request wants committed, in or outside of a transaction."""

from typing import TYPE_CHECKING

from semel.groups.commands import OffsetToCommit
from semel.wire.messages.offset_commit import OffsetCommitRequestTopic
from semel.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def known_offsets(
    broker: "Broker", topics: list[OffsetCommitRequestTopic] | list[TxnOffsetCommitRequestTopic]
) -> tuple[OffsetToCommit, ...]:
    """Those of partitions that exist; the others are refused one by one."""
    return tuple(
        OffsetToCommit(
            topic.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
        )
        for topic in topics
        for partition in topic.partitions
        if _exists(broker, topic.name, partition.partition_index)
    )


def _exists(broker: "Broker", topic_name: str, index: int) -> bool:
    topic = broker.lane.state.topics.get(topic_name)
    return topic is not None and topic.partition(index) is not None

"""The offsets that a request wants committed, in or outside of a transaction, and its answers."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from semel.errors import UnknownTopicOrPartition
from semel.groups.commands import OffsetToCommit
from semel.types import TopicPartition
from semel.wire.messages.offset_commit import OffsetCommitRequestTopic
from semel.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic

if TYPE_CHECKING:
    from semel.broker.broker import Broker


Topics = list[OffsetCommitRequestTopic] | list[TxnOffsetCommitRequestTopic]


def known_offsets(broker: "Broker", topics: Topics) -> tuple[OffsetToCommit, ...]:
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
        if broker.catalogue.has_partition(topic.name, partition.partition_index)
    )


def answers(
    topics: Topics, codes: Mapping[TopicPartition, int]
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Each topic with the numbers of its partitions and their codes, in the order asked."""
    unknown = UnknownTopicOrPartition.code
    for topic in topics:
        indexes = (partition.partition_index for partition in topic.partitions)
        yield (
            topic.name,
            [(index, codes.get(TopicPartition(topic.name, index), unknown)) for index in indexes],
        )

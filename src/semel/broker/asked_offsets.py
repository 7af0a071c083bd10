"""The offsets that a request wants committed, in or outside of a transaction, and its answers."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from semel.errors import RequestError, UnknownTopicOrPartition
from semel.groups.commands import OffsetToCommit
from semel.lane.view import CatalogueView
from semel.types import TopicPartition
from semel.wire.messages.offset_commit import OffsetCommitRequestTopic
from semel.wire.messages.offset_fetch import OffsetFetchRequestTopics
from semel.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic

Topics = list[OffsetCommitRequestTopic] | list[TxnOffsetCommitRequestTopic]


Asked = TypeVar(
    "Asked", OffsetCommitRequestTopic, OffsetFetchRequestTopics, TxnOffsetCommitRequestTopic
)


def by_id(catalogue: CatalogueView, topics: list[Asked]) -> tuple[list[Asked], list[Asked]]:
    """Those that there are, which get their names, and those whose ids nobody has."""
    known: list[Asked] = []
    unknown: list[Asked] = []
    for topic in topics:
        found = catalogue.with_id(topic.topic_id)
        if found is None:
            unknown.append(topic)
        else:
            topic.name = found.name
            known.append(topic)
    return known, unknown


def known_offsets(catalogue: CatalogueView, topics: Topics) -> tuple[OffsetToCommit, ...]:
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
        if catalogue.has_partition(topic.name, partition.partition_index)
    )


def refused(
    topics: Topics, known: tuple[OffsetToCommit, ...] | None, refusal: RequestError
) -> dict[TopicPartition, int]:
    """The code of each that is known, or of all if that could not be found out."""
    if known is not None:
        return {TopicPartition(each.topic, each.partition): refusal.code for each in known}
    return {
        TopicPartition(topic.name, partition.partition_index): refusal.code
        for topic in topics
        for partition in topic.partitions
    }


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

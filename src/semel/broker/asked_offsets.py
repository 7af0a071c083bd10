"""The offsets that a request wants committed, in or outside of a transaction, and its answers."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from semel.broker.answer import Call
from semel.errors import RequestError, TopicAuthorizationFailed, UnknownTopicOrPartition
from semel.groups.commands import OffsetToCommit
from semel.lane.view import CatalogueView
from semel.types import TopicPartition
from semel.wire.messages.offset_commit import OffsetCommitRequestTopic
from semel.wire.messages.offset_fetch import OffsetFetchRequestTopics
from semel.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic
from semel.wire.rights import DESCRIBE_TOPIC, READ_TOPIC

Topics = list[OffsetCommitRequestTopic] | list[TxnOffsetCommitRequestTopic]


Asked = TypeVar(
    "Asked", OffsetCommitRequestTopic, OffsetFetchRequestTopics, TxnOffsetCommitRequestTopic
)


def by_id(
    catalogue: CatalogueView, topics: list[Asked], call: Call
) -> tuple[list[Asked], list[Asked]]:
    """Those that there are, which get their names, and those whose ids nobody has, or of which the
    client may not know."""
    known: list[Asked] = []
    unknown: list[Asked] = []
    for topic in topics:
        found = catalogue.with_id(topic.topic_id)
        if found is None or not call.may(DESCRIBE_TOPIC, found.name):
            unknown.append(topic)
        else:
            topic.name = found.name
            known.append(topic)
    return known, unknown


def readable(topics: Topics, call: Call) -> frozenset[str]:
    """Those of which the client may keep offsets: who reads them."""
    return frozenset(topic.name for topic in topics if call.may(READ_TOPIC, topic.name))


def known_offsets(
    catalogue: CatalogueView, topics: Topics, allowed: frozenset[str]
) -> tuple[OffsetToCommit, ...]:
    """Those of allowed partitions that exist; the others are refused one by one."""
    return tuple(
        OffsetToCommit(
            topic.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
        )
        for topic in topics
        if topic.name in allowed
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
    topics: Topics, codes: Mapping[TopicPartition, int], allowed: frozenset[str]
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Each topic with the numbers of its partitions and their codes, in the order asked."""
    for topic in topics:
        refusal = UnknownTopicOrPartition if topic.name in allowed else TopicAuthorizationFailed
        unknown = refusal.code
        indexes = (partition.partition_index for partition in topic.partitions)
        yield (
            topic.name,
            [(index, codes.get(TopicPartition(topic.name, index), unknown)) for index in indexes],
        )

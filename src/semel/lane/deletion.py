"""Deleting a topic, and in the same frame all that is known about it elsewhere."""

from semel.lane import facts
from semel.lane.changes import offsets_topic
from semel.lane.claims import Claim
from semel.lane.group_steps import GroupBatches
from semel.lane.lane import Lane
from semel.lane.topics import Topic
from semel.lane.transaction_steps import prepare
from semel.transactions.commands import ForgetPartitions
from semel.types import Position


def delete_topic(lane: Lane, topic: Topic) -> Position:
    """Its offsets are forgotten, and open transactions go on without it.

    A transaction that still named a partition which is gone could never be given its markers.
    """
    at = lane.clock.moment()
    partitions = frozenset(partition.topic_partition for partition in topic.partitions)
    forgotten = lane.state.groups.forget_partitions(partitions)
    tombstones = None
    if forgotten.records:
        tombstones = GroupBatches(offsets_topic(lane), forgotten.records, at.wall_ms)
    leaving = [
        prepare(lane, transaction, ForgetPartitions(partitions), at)
        for transaction in lane.state.transactions.open()
        if transaction.partitions & partitions
    ]
    deleted = facts.TopicDeleted(topic.name)
    draft = lane.draft(
        facts.size_in_frame(deleted)
        + (tombstones.size if tombstones else 0)
        + sum(step.size for step in leaving),
        Claim.ENDING,
        owed_change=sum(step.owed_change for step in leaving),
        at=at,
    )
    if tombstones is not None:
        tombstones.add_to(draft, lane)
    for step in leaving:
        step.add_to(draft)
    draft.add_fact(deleted)
    end = draft.append()
    lane.drop_from_index(topic.partitions)
    for partition in topic.partitions:
        for tell in tuple(partition.watchers):
            tell()
    return end

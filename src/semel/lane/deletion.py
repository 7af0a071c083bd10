"""Deleting a topic, and in the same frame all that is known about it elsewhere."""

from semel.groups import records as group_records
from semel.lane import facts
from semel.lane.changes import offsets_topic
from semel.lane.group_steps import RECORD_OVERHEAD, add_group_records, batches_overhead
from semel.lane.lane import FACT_SIZE_MAX, Lane
from semel.lane.topics import Topic
from semel.lane.transaction_steps import prepare
from semel.transactions.commands import ForgetPartitions
from semel.types import Position


def delete_topic(lane: Lane, topic: Topic) -> Position:
    """Its offsets are forgotten, and open transactions go on without it.

    A transaction that still named a partition which is gone could never be given its markers.
    """
    partitions = frozenset(partition.topic_partition for partition in topic.partitions)
    forgotten = lane.state.groups.forget_partitions(partitions)
    size = FACT_SIZE_MAX
    if forgotten.records:
        size += batches_overhead(offsets_topic(lane), len(forgotten.records))
    for record in forgotten.records:
        key, value = group_records.encode(record)
        size += len(key) + len(value or b"") + RECORD_OVERHEAD
    at = lane.clock.moment()
    leaving = [
        prepare(lane, transaction, ForgetPartitions(partitions), at)
        for transaction in lane.state.transactions.open()
        if transaction.partitions & partitions
    ]
    draft = lane.draft(size + sum(step.size for step in leaving), urgent=True, at=at)
    if forgotten.records:
        add_group_records(lane, offsets_topic(lane), draft, forgotten)
    for step in leaving:
        step.add_to(draft)
    draft.add_fact(facts.TopicDeleted(topic.name))
    end = draft.append()
    lane.drop_from_index(topic.partitions)
    for partition in topic.partitions:
        for tell in tuple(partition.watchers):
            tell()
    return end

"""Steps of the groups: their records become batches of `__consumer_offsets` in one frame."""

from collections import defaultdict
from collections.abc import Callable

from semel.groups import records as group_records
from semel.groups.commands import Step
from semel.groups.room import RECORD_BYTES_MIN
from semel.lane import frame
from semel.lane.changes import offsets_topic
from semel.lane.draft import Draft
from semel.lane.lane import Lane
from semel.lane.topics import Topic
from semel.records import batch as record_batch
from semel.records.partitioning import partition_for
from semel.records.records import Record, encode_batch
from semel.types import Position
from semel.world import Moment

BATCH_OVERHEAD = frame.ENTRY_SIZE + record_batch.HEADER_SIZE
"""Bytes. What a batch takes in a frame beside its records."""

RECORD_OVERHEAD = 32
"""Bytes. Lengths, deltas and attributes of one record."""


def take_group_step(
    lane: Lane, decide: Callable[[Moment], Step], size_max: int, *, urgent: bool = False
) -> tuple[Step, Position]:
    """Decide at the present time, append what was decided, apply it, all in one step.

    `size_max` bounds the bytes of the records that the decision may lead to. The replies may
    leave the lane when the position is durable. Raises JournalFull before anything is decided.
    """
    if size_max == 0:
        # A heartbeat needs no room, and must be answered also when the disk is full: sessions
        # would end otherwise.
        step = decide(lane.clock.moment())
        assert not step.records, "a step that writes nothing has records"
        return step, lane.journal.end
    topic = offsets_topic(lane)
    size_max += batches_overhead(topic, size_max // RECORD_BYTES_MIN)
    draft = lane.draft(size_max, urgent=urgent)
    step = decide(draft.at)
    add_group_records(lane, topic, draft, step)
    return step, draft.append()


def batches_overhead(topic: Topic, record_count: int) -> int:
    return BATCH_OVERHEAD * min(record_count, len(topic.partitions))


def add_group_records(lane: Lane, topic: Topic, draft: Draft, step: Step) -> None:
    by_partition: dict[int, list[Record]] = defaultdict(list)
    for record in step.records:
        key, value = group_records.encode(record)
        index = partition_for(record.group_id, len(topic.partitions))
        by_partition[index].append(Record(key, value, draft.at.wall_ms))
    for index, records in by_partition.items():
        batch = memoryview(encode_batch(records))
        header = record_batch.read(batch)
        draft.add_batch(topic.partitions[index], header, header.checksum, batch)
    for record in step.records:
        lane.state.groups.apply(record, draft.at.now_ms)

"""Steps of the groups: their records become batches of `__consumer_offsets` in one frame."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from semel.groups import records as group_records
from semel.groups.commands import Step
from semel.groups.records import GroupRecord
from semel.groups.room import RECORD_BYTES_MIN
from semel.lane import frame
from semel.lane.changes import offsets_topic
from semel.lane.claims import Claim
from semel.lane.draft import Draft
from semel.lane.lane import Lane
from semel.lane.topics import Topic
from semel.lane.transaction_steps import BATCH_OVERHEAD
from semel.log.partition import Partition
from semel.records import batch as record_batch
from semel.records.partitioning import partition_for
from semel.records.records import Record, encode_batch
from semel.types import Position
from semel.world import Moment

RECORDS_SIZE_MAX = 2**20
"""Bytes. Records of a partition that share a batch, so that readers need not take all at once."""


def take_group_step(
    lane: Lane, decide: Callable[[Moment], Step], size_max: int, claim: Claim = Claim.ORDINARY
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
    draft = lane.draft(size_max + _overhead(topic, size_max), claim)
    step = decide(draft.at)
    GroupBatches(topic, step.records, draft.at.wall_ms).add_to(draft, lane)
    return step, draft.append()


def records_room(lane: Lane, claim: Claim) -> int:
    """A `size_max` for which there is room now."""
    left = lane.room(claim)
    return max(0, left - _overhead(offsets_topic(lane), left))


def _overhead(topic: Topic, records_size: int) -> int:
    """Bytes that batches of these many bytes of records take beside them."""
    batch_count_max = min(records_size // RECORD_BYTES_MIN, len(topic.partitions))
    return BATCH_OVERHEAD * (batch_count_max + records_size // RECORDS_SIZE_MAX)


class GroupBatches:
    """Records of groups as batches of `__consumer_offsets`, and the bytes they take in a frame."""

    def __init__(self, topic: Topic, records: Sequence[GroupRecord], wall_ms: int) -> None:
        self.size = 0
        self._records = records
        self._batches: list[tuple[Partition, bytes]] = []
        waiting: dict[int, list[Record]] = defaultdict(list)
        sizes: dict[int, int] = defaultdict(int)
        for record in records:
            key, value = group_records.encode(record)
            index = partition_for(record.group_id, len(topic.partitions))
            waiting[index].append(Record(key, value, wall_ms))
            sizes[index] += len(key) + len(value or b"")
            if sizes[index] >= RECORDS_SIZE_MAX:
                self._add(topic.partitions[index], waiting.pop(index))
                del sizes[index]
        for index, rest in waiting.items():
            self._add(topic.partitions[index], rest)

    def _add(self, partition: Partition, records: list[Record]) -> None:
        batch = encode_batch(records)
        self._batches.append((partition, batch))
        self.size += frame.ENTRY_SIZE + len(batch)

    def add_to(self, draft: Draft, lane: Lane) -> None:
        """Apply them, as part of the draft's frame."""
        for partition, encoded in self._batches:
            batch = memoryview(encoded)
            header = record_batch.read(batch)
            draft.add_batch(partition, header, header.checksum, batch)
        for record in self._records:
            lane.state.groups.apply(record, draft.at.now_ms)

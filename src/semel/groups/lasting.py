"""The groups of a lane as their records leave them: the only place where lasting state changes.

Law: of two commits of a partition the later in the log wins, whichever became final first.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from semel.arrivals import Arrivals
from semel.groups.records import (
    NO_TIMESTAMP,
    GenerationRecorded,
    GroupForgotten,
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
)
from semel.types import NO_PRODUCER_ID, GroupId, ProducerId, TopicPartition


class OffsetInSnapshot(msgspec.Struct, frozen=True, gc=False):
    record: OffsetCommitted
    order: int
    producer_id: ProducerId = NO_PRODUCER_ID
    """Set while the offset is pending in this producer's transaction."""
    stored_ms: int | None = None
    """None in a checkpoint that knows one time alone."""


class GroupsSnapshot(msgspec.Struct, frozen=True):
    """All that lasts of the groups of a lane, as one value that a checkpoint can hold."""

    generations: tuple[GenerationRecorded, ...] = ()
    offsets: tuple[OffsetInSnapshot, ...] = ()
    order: int = 0
    generations_ms: tuple[int, ...] | None = None
    """When each generation was recorded; None in a checkpoint that knows one time alone."""


class StoredOffset(NamedTuple):
    record: OffsetCommitted
    order: int
    """Rises with the place in the log."""
    stored_ms: int
    """When that was, by the time in which retention is counted."""


class Offsets:
    """The offsets of one group: committed, and pending in open transactions.

    Law: `groups_by_topic`, which all groups share, names this one under just the topics that it has
    offsets of. So the end of a topic concerns its own offsets alone.
    """

    def __init__(self, group_id: GroupId, groups_by_topic: dict[str, dict[GroupId, None]]) -> None:
        self.committed: dict[TopicPartition, StoredOffset] = {}
        self.pending: dict[ProducerId, dict[TopicPartition, StoredOffset]] = {}
        self._group_id = group_id
        self._groups_by_topic = groups_by_topic
        self._counts: dict[str, dict[int, int]] = {}
        """By topic and partition, in how many of the above it is."""

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending)

    def store(self, stored: StoredOffset, producer_id: ProducerId) -> None:
        partition = stored.record.topic_partition
        offsets = self.committed
        if producer_id != NO_PRODUCER_ID:
            offsets = self.pending.setdefault(producer_id, {})
        if partition not in offsets:
            self._count(partition)
        offsets[partition] = stored

    def forget(self, partition: TopicPartition) -> None:
        """Also what is pending: it stands earlier in the log, so its marker must not revive it."""
        if self.committed.pop(partition, None) is not None:
            self._count_off(partition)
        for producer_id, offsets in list(self.pending.items()):
            if offsets.pop(partition, None) is not None:
                self._count_off(partition)
            if not offsets:
                del self.pending[producer_id]

    def apply_marker(self, producer_id: ProducerId, committed: bool) -> None:
        offsets = self.pending.pop(producer_id, {})
        for partition, stored in offsets.items():
            current = self.committed.get(partition)
            if committed and (current is None or current.order < stored.order):
                self.committed[partition] = stored
            if current is not None or not committed:
                self._count_off(partition)

    def _count(self, partition: TopicPartition) -> None:
        topic, index = partition
        counts = self._counts.get(topic)
        if counts is None:
            counts = self._counts[topic] = {}
            self._groups_by_topic.setdefault(topic, {})[self._group_id] = None
        counts[index] = counts.get(index, 0) + 1

    def _count_off(self, partition: TopicPartition) -> None:
        topic, index = partition
        counts = self._counts[topic]
        counts[index] -= 1
        if counts[index] > 0:
            return
        del counts[index]
        if not counts:
            del self._counts[topic]
            groups = self._groups_by_topic[topic]
            del groups[self._group_id]
            if not groups:
                del self._groups_by_topic[topic]

    def of_topic(self, topic: str) -> list[TopicPartition]:
        """Its partitions with an offset here, committed or pending."""
        return [TopicPartition(topic, index) for index in sorted(self._counts.get(topic, ()))]

    def is_pending(self, partition: TopicPartition) -> bool:
        return any(partition in offsets for offsets in self.pending.values())

    def partitions(self) -> set[TopicPartition]:
        return set(self.committed).union(*self.pending.values())

    def has_expired(
        self, partition: TopicPartition, now_ms: int, retention_ms: int, since_ms: int
    ) -> bool:
        """Whether its offset has outlived its retention, and no transaction is about to set it.

        It counts from the commit, or from `since_ms`, when the group lost its last member, if
        that was later; a retention given with the commit overrides both.
        """
        stored = self.committed.get(partition)
        if stored is None:
            return False
        record, _, stored_ms = stored
        if record.expire_timestamp_ms != NO_TIMESTAMP:
            own_retention_ms = record.expire_timestamp_ms - record.commit_timestamp_ms
            expires_at_ms = stored_ms + own_retention_ms
        else:
            expires_at_ms = max(stored_ms, since_ms) + retention_ms
        return expires_at_ms <= now_ms and not self.is_pending(partition)


class LastingGroup:
    __slots__ = ("group_id", "number", "offsets", "recorded", "recorded_ms")

    def __init__(self, group_id: GroupId, offsets: Offsets) -> None:
        self.group_id = group_id
        self.number = -1
        """In the order in which groups came."""
        self.recorded: GenerationRecorded | None = None
        self.recorded_ms = NO_TIMESTAMP
        """When that was, by the time in which retention is counted."""
        self.offsets = offsets


class CapturedGroup(NamedTuple):
    """What lasts of a group, whatever changes later: its offsets are values."""

    recorded: GenerationRecorded | None
    recorded_ms: int
    committed: dict[TopicPartition, StoredOffset]
    pending: dict[ProducerId, dict[TopicPartition, StoredOffset]]

    def offsets(self) -> Iterator[OffsetInSnapshot]:
        for producer_id, offsets in ((NO_PRODUCER_ID, self.committed), *self.pending.items()):
            for record, order, stored_ms in offsets.values():
                yield OffsetInSnapshot(record, order, producer_id, stored_ms)


def captured_group(group: LastingGroup) -> CapturedGroup:
    offsets = group.offsets
    pending = {producer_id: stored.copy() for producer_id, stored in offsets.pending.items()}
    return CapturedGroup(group.recorded, group.recorded_ms, offsets.committed.copy(), pending)


class LastingGroups:
    def __init__(self) -> None:
        self.by_id: dict[GroupId, LastingGroup] = {}
        self.arrivals = Arrivals[LastingGroup]()
        self.order = 0
        """Of the last offset that was committed."""
        self.before_change: Callable[[LastingGroup], None] | None = None
        """Told of a group before it changes."""
        self._pending_in: dict[ProducerId, set[GroupId]] = {}
        self._by_topic: dict[str, dict[GroupId, None]] = {}

    def with_offsets_of(self, topic: str) -> list[LastingGroup]:
        return [self.by_id[group_id] for group_id in self._by_topic.get(topic, ())]

    def apply(
        self, record: GroupRecord, now_ms: int, producer_id: ProducerId = NO_PRODUCER_ID
    ) -> None:
        match record:
            case OffsetCommitted():
                self.order += 1
                self._store(StoredOffset(record, self.order, now_ms), producer_id)
            case OffsetForgotten(group_id=group_id):
                group = self._changing(group_id)
                if group is not None:
                    group.offsets.forget(record.topic_partition)
                    self._drop_if_nothing_is_left(group)
            case GenerationRecorded():
                self._record(record, now_ms)
            case GroupForgotten(group_id=group_id):
                group = self._changing(group_id)
                if group is not None:
                    group.recorded = None
                    self._drop_if_nothing_is_left(group)

    def apply_marker(self, producer_id: ProducerId, committed: bool) -> None:
        for group_id in self._pending_in.pop(producer_id, ()):
            group = self._changing(group_id)
            if group is not None:
                group.offsets.apply_marker(producer_id, committed)
                self._drop_if_nothing_is_left(group)

    def snapshot(self) -> GroupsSnapshot:
        groups = [captured_group(group) for group in self.by_id.values()]
        recorded = [(group.recorded, group.recorded_ms) for group in groups if group.recorded]
        return GroupsSnapshot(
            tuple(generation for generation, _ in recorded),
            tuple(offset for group in groups for offset in group.offsets()),
            self.order,
            tuple(recorded_ms for _, recorded_ms in recorded),
        )

    def restore(self, snapshot: GroupsSnapshot) -> None:
        self.by_id.clear()
        self.arrivals = Arrivals[LastingGroup]()
        self._pending_in.clear()
        self._by_topic.clear()
        generations_ms = snapshot.generations_ms
        if generations_ms is None:
            generations_ms = tuple(each.state_timestamp_ms for each in snapshot.generations)
        for generation, recorded_ms in zip(snapshot.generations, generations_ms, strict=True):
            self._record(generation, recorded_ms)
        for each in snapshot.offsets:
            stored_ms = each.stored_ms
            if stored_ms is None:
                stored_ms = each.record.commit_timestamp_ms
            self._store(StoredOffset(each.record, each.order, stored_ms), each.producer_id)
        self.order = snapshot.order

    def _group(self, group_id: GroupId) -> LastingGroup:
        group = self._changing(group_id)
        if group is None:
            offsets = Offsets(group_id, self._by_topic)
            group = self.by_id[group_id] = LastingGroup(group_id, offsets)
            group.number = self.arrivals.add(group)
        return group

    def _changing(self, group_id: GroupId) -> LastingGroup | None:
        group = self.by_id.get(group_id)
        if group is not None and self.before_change is not None:
            self.before_change(group)
        return group

    def _drop_if_nothing_is_left(self, group: LastingGroup) -> None:
        if group.recorded is None and not group.offsets:
            del self.by_id[group.group_id]
            self.arrivals.remove(group.number)

    def _record(self, generation: GenerationRecorded, recorded_ms: int) -> None:
        group = self._group(generation.group_id)
        group.recorded = generation
        group.recorded_ms = recorded_ms

    def _store(self, stored: StoredOffset, producer_id: ProducerId) -> None:
        group_id = stored.record.group_id
        self._group(group_id).offsets.store(stored, producer_id)
        if producer_id != NO_PRODUCER_ID:
            self._pending_in.setdefault(producer_id, set()).add(group_id)

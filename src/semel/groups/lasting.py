"""The groups of a lane as their records leave them: the only place where lasting state changes."""

from semel.groups.group import Group
from semel.groups.offsets import StoredOffset
from semel.groups.records import (
    GenerationRecorded,
    GroupForgotten,
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
)
from semel.groups.snapshot import GroupsSnapshot, OffsetInSnapshot
from semel.groups.states import State
from semel.types import NO_PRODUCER_ID, GroupId, ProducerId


class LastingGroups:
    def __init__(self) -> None:
        self.by_id: dict[GroupId, Group] = {}
        self._order = 0
        self._pending_in: dict[ProducerId, set[GroupId]] = {}

    def apply(
        self, record: GroupRecord, now_ms: int, producer_id: ProducerId = NO_PRODUCER_ID
    ) -> None:
        match record:
            case OffsetCommitted(group_id=group_id):
                self._order += 1
                self._store(StoredOffset(record, self._order, now_ms), producer_id)
            case OffsetForgotten(group_id=group_id):
                group = self.by_id.get(group_id)
                if group is not None:
                    group.offsets.forget(record.topic_partition)
                    self.drop_if_vacant(group)
            case GenerationRecorded(group_id=group_id):
                self._record(record, now_ms)
            case GroupForgotten(group_id=group_id):
                group = self.by_id.get(group_id)
                if group is not None:
                    group.recorded = None
                    group.generation = 0
                    group.protocol_type = None
                    self.drop_if_vacant(group)

    def apply_marker(self, producer_id: ProducerId, committed: bool) -> None:
        for group_id in self._pending_in.pop(producer_id, ()):
            group = self.by_id.get(group_id)
            if group is not None:
                group.offsets.complete(producer_id, committed)
                self.drop_if_vacant(group)

    def drop_if_vacant(self, group: Group) -> None:
        if group.is_vacant:
            group.move_to(State.DEAD)
            del self.by_id[group.group_id]

    def snapshot(self) -> GroupsSnapshot:
        groups = self.by_id.values()
        offsets = [
            OffsetInSnapshot(record, order, stored_ms=stored_ms)
            for group in groups
            for record, order, stored_ms in group.offsets.committed.values()
        ]
        offsets += [
            OffsetInSnapshot(record, order, producer_id, stored_ms)
            for group in groups
            for producer_id, pending in group.offsets.pending.items()
            for record, order, stored_ms in pending.values()
        ]
        recorded = [(group.recorded, group.recorded_ms) for group in groups if group.recorded]
        return GroupsSnapshot(
            tuple(generation for generation, _ in recorded),
            tuple(offsets),
            self._order,
            tuple(recorded_ms for _, recorded_ms in recorded),
        )

    def restore(self, snapshot: GroupsSnapshot) -> None:
        self.by_id.clear()
        self._pending_in.clear()
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
        self._order = snapshot.order

    def _group(self, group_id: GroupId) -> Group:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = Group(group_id)
        return group

    def _record(self, generation: GenerationRecorded, recorded_ms: int) -> None:
        group = self._group(generation.group_id)
        group.recorded = generation
        group.recorded_ms = recorded_ms

    def _store(self, stored: StoredOffset, producer_id: ProducerId) -> None:
        group_id = stored.record.group_id
        self._group(group_id).offsets.store(stored, producer_id)
        if producer_id != NO_PRODUCER_ID:
            self._pending_in.setdefault(producer_id, set()).add(group_id)

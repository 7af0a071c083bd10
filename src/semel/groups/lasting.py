"""The groups of a lane as their records leave them: the only place where lasting state changes."""

from semel.groups.group import Group
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

    def apply(self, record: GroupRecord, producer_id: ProducerId = NO_PRODUCER_ID) -> None:
        match record:
            case OffsetCommitted(group_id=group_id):
                self._order += 1
                self._store(record, self._order, producer_id)
            case OffsetForgotten(group_id=group_id):
                group = self.by_id.get(group_id)
                if group is not None:
                    group.offsets.forget(record.topic_partition)
                    self.drop_if_vacant(group)
            case GenerationRecorded(group_id=group_id):
                self._group(group_id).recorded = record
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
            OffsetInSnapshot(record, order)
            for group in groups
            for record, order in group.offsets.committed.values()
        ]
        offsets += [
            OffsetInSnapshot(record, order, producer_id)
            for group in groups
            for producer_id, pending in group.offsets.pending.items()
            for record, order in pending.values()
        ]
        generations = tuple(group.recorded for group in groups if group.recorded is not None)
        return GroupsSnapshot(generations, tuple(offsets), self._order)

    def restore(self, snapshot: GroupsSnapshot) -> None:
        self.by_id.clear()
        self._pending_in.clear()
        for generation in snapshot.generations:
            self._group(generation.group_id).recorded = generation
        for stored in snapshot.offsets:
            self._store(stored.record, stored.order, stored.producer_id)
        self._order = snapshot.order

    def _group(self, group_id: GroupId) -> Group:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = Group(group_id)
        return group

    def _store(self, record: OffsetCommitted, order: int, producer_id: ProducerId) -> None:
        self._group(record.group_id).offsets.store(record, order, producer_id)
        if producer_id != NO_PRODUCER_ID:
            self._pending_in.setdefault(producer_id, set()).add(record.group_id)

"""The end of offsets and of whole groups, as administrators ask for it."""

from semel.errors import (
    NONE,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    RequestError,
)
from semel.groups.commands import (
    DeletedGroup,
    DeleteGroups,
    DeleteGroupsReply,
    DeleteOffsets,
    DeleteOffsetsReply,
    ForgetTopic,
    PartitionOutcome,
    Ticket,
)
from semel.groups.deciding import GroupChanged, GroupDecision, VolatileChange
from semel.groups.lasting import LastingGroup, LastingGroups
from semel.groups.members import CONSUMER_PROTOCOL_TYPE
from semel.groups.membership import Membership, State
from semel.groups.records import GroupForgotten, GroupRecord, OffsetForgotten
from semel.groups.volatile import VolatileGroups
from semel.types import GroupId


def delete_groups(
    lasting: LastingGroups, volatile: VolatileGroups, command: DeleteGroups, ticket: Ticket
) -> GroupDecision:
    records: list[GroupRecord] = []
    changes: list[VolatileChange] = []
    deleted = []
    for group_id in dict.fromkeys(command.group_ids):
        try:
            stored = lasting.by_id.get(group_id)
            group = _checked(volatile.membership(group_id), stored, group_id)
        except RequestError as refusal:
            deleted.append(DeletedGroup(group_id, refusal.code, str(refusal)))
            continue
        # Ids that were given out are forgotten with it.
        changes.append(GroupChanged(group_id, group.moved_to(State.DEAD), {}))
        records += _tombstones(stored)
        deleted.append(DeletedGroup(group_id, NONE))
    reply = DeleteGroupsReply(tuple(deleted))
    return GroupDecision(tuple(records), ((ticket, reply),), tuple(changes))


def _checked(
    group: Membership | None, stored: LastingGroup | None, group_id: GroupId
) -> Membership:
    if group is None:
        raise GroupIdNotFound(f"{group_id} is not a group")
    # What is pending in a transaction must stay: its marker is yet to come.
    if group.state is not State.EMPTY or (stored is not None and stored.offsets.pending):
        raise NonEmptyGroup(f"{group_id} is {group.state.value}")
    return group


def _tombstones(group: LastingGroup | None) -> list[GroupRecord]:
    if group is None:
        return []
    records: list[GroupRecord] = [
        OffsetForgotten(group.group_id, *partition) for partition in group.offsets.committed
    ]
    if group.recorded is not None:
        records.append(GroupForgotten(group.group_id))
    return records


def delete_offsets(
    group: Membership | None, stored: LastingGroup | None, command: DeleteOffsets, ticket: Ticket
) -> GroupDecision:
    if group is None:
        raise GroupIdNotFound(f"{command.group_id} is not a group")
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise NonEmptyGroup(f"{group.group_id} has members, and what they read is not known")
    # Metadata that cannot be read may name any topic.
    subscribed = group.subscribed_topics()
    known = set() if stored is None else stored.offsets.partitions()
    records = []
    partitions = []
    for partition in dict.fromkeys(command.partitions):
        if subscribed is None or partition.topic in subscribed:
            partitions.append(PartitionOutcome(partition, GroupSubscribedToTopic.code))
            continue
        partitions.append(PartitionOutcome(partition, NONE))
        if partition in known:
            records.append(OffsetForgotten(group.group_id, *partition))
    reply = DeleteOffsetsReply(NONE, tuple(partitions))
    return GroupDecision(tuple(records), ((ticket, reply),))


def forget_topic(lasting: LastingGroups, command: ForgetTopic) -> GroupDecision:
    return GroupDecision(
        tuple(
            OffsetForgotten(group.group_id, *partition)
            for group in lasting.with_offsets_of(command.topic)
            for partition in group.offsets.of_topic(command.topic)
        )
    )

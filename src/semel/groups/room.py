"""Upper bounds of the bytes that a command's records can take, so that room can be reserved first.

They cover key, value and the framing of each record within its batch, not the batch's header.
"""

from collections.abc import Collection

from semel.groups.commands import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    Heartbeat,
    Join,
    Leave,
    Sync,
)
from semel.groups.group import Group
from semel.groups.settings import STRING_BYTES_MAX
from semel.types import GroupId, TopicPartition

OFFSET_RECORD_OVERHEAD = 96
GENERATION_RECORD_OVERHEAD = 128
MEMBER_OVERHEAD = 32
NEW_ID_BYTES_MAX = 128

RECORD_BYTES_MIN = min(OFFSET_RECORD_OVERHEAD, GENERATION_RECORD_OVERHEAD)

STEP_BYTES_MAX = 2 * STRING_BYTES_MAX + 4 * 1024
"""Bounds a step that no request asked for: `expire`, `forget_ticket`, `forget_ids`.

It has to fit what the journal keeps for ends on a full disk, and has to hold the record of any
group that is left empty: its id, its protocol's type and little else.
"""

Command = Join | Sync | Heartbeat | Leave | CommitOffsets | DeleteGroups | DeleteOffsets


def text_bytes(*texts: str | None) -> int:
    return sum(len(text.encode()) for text in texts if text)


def empty_generation_bytes(group: Group) -> int:
    return GENERATION_RECORD_OVERHEAD + text_bytes(group.group_id, group.protocol_type)


def generation_bytes(group: Group) -> int:
    size = empty_generation_bytes(group)
    for member in group.members.values():
        size += MEMBER_OVERHEAD + len(member.assignment)
        # Twice its id: as the member and as the leader, whose protocol's name is stored too.
        size += text_bytes(member.member_id, member.member_id, member.group_instance_id)
        size += text_bytes(member.client_id, member.client_host)
        size += sum(text_bytes(name) + len(metadata) for name, metadata in member.protocols)
    return size


def tombstones_bytes(group_id: GroupId, partitions: Collection[TopicPartition]) -> int:
    each = OFFSET_RECORD_OVERHEAD + text_bytes(group_id)
    return each * len(partitions) + text_bytes(*(partition.topic for partition in partitions))


def bytes_max(command: Command, group: Group | None) -> int:
    """What the command may write about this group, which is the one it names."""
    if isinstance(command, CommitOffsets):
        texts = sum(text_bytes(offset.topic, offset.metadata) for offset in command.offsets)
        each = OFFSET_RECORD_OVERHEAD + text_bytes(command.group_id)
        return texts + each * len(command.offsets)
    if isinstance(command, DeleteOffsets):
        return tombstones_bytes(command.group_id, command.partitions)
    if isinstance(command, Heartbeat) or group is None:
        return 0
    size = generation_bytes(group)
    if isinstance(command, DeleteGroups):
        size += tombstones_bytes(group.group_id, group.offsets.committed)
    elif isinstance(command, Join):
        size += _joiner_bytes(command)
    elif isinstance(command, Sync):
        size += sum(len(assigned) for _, assigned in command.assignments)
    return size


def _joiner_bytes(command: Join) -> int:
    # Its id is not known yet; it starts with one of these names.
    names = text_bytes(command.group_instance_id, command.client_id)
    texts = text_bytes(command.client_host, command.protocol_type)
    metadata = sum(text_bytes(name) + len(metadata) for name, metadata in command.protocols)
    return MEMBER_OVERHEAD + NEW_ID_BYTES_MAX + 3 * names + texts + metadata

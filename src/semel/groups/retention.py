"""Forgetting the offsets that no one has used for long, and the groups left with none.

no members, known to have had some   counted from when the last one left
no members ever (offsets only)       counted from the commit
stable, of consumers                 topics they no longer subscribe to, from the commit
anything else                        kept
"""

from semel.groups.group import Group
from semel.groups.records import NO_TIMESTAMP, GroupForgotten, OffsetForgotten
from semel.groups.room import OFFSET_RECORD_OVERHEAD, text_bytes
from semel.groups.states import State
from semel.groups.turn import Turn


def retire(group: Group, bytes_max: int, turn: Turn) -> int:
    """Write what forgets the expired; returns an upper bound of its bytes, at most `bytes_max`."""
    subscribed: frozenset[str] | None = frozenset()
    if group.state is State.STABLE:
        subscribed = group.subscribed_topics()
    elif group.state is not State.EMPTY:
        subscribed = None
    if subscribed is None:
        return 0
    since_ms = NO_TIMESTAMP
    if group.state is State.EMPTY and group.recorded is not None:
        since_ms = group.recorded_ms
    used_bytes = 0
    forgotten_count = 0
    group_id_bytes = text_bytes(group.group_id)
    topics = subscribed
    for partition in group.offsets.expired(
        turn.now_ms, turn.settings.offsets_retention_ms, since_ms, lambda topic: topic in topics
    ):
        used_bytes += OFFSET_RECORD_OVERHEAD + group_id_bytes + text_bytes(partition.topic)
        if used_bytes > bytes_max:
            return bytes_max
        turn.write(OffsetForgotten(group.group_id, *partition))
        forgotten_count += 1
    is_left = group.offsets.pending or forgotten_count < len(group.offsets.committed)
    if group.state is State.EMPTY and group.recorded and not is_left and not group.pending_members:
        used_bytes += OFFSET_RECORD_OVERHEAD + group_id_bytes
        if used_bytes > bytes_max:
            return bytes_max
        turn.write(GroupForgotten(group.group_id))
    return used_bytes

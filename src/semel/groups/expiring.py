"""What happens because time passes, in steps of bounded size: what is left stays due.

Sessions and rebalances end first. Retention forgets the offsets that no one has used for long,
and the groups left with none:

    no members, known to have had some   counted from when the last one left
    no members ever (offsets only)       counted from the commit
    stable, of consumers                 topics they no longer subscribe to, from the commit
    anything else                        kept
"""

from collections.abc import Iterator
from itertools import islice

from semel.groups import leaving
from semel.groups.commands import Expire
from semel.groups.deciding import (
    Deciding,
    GroupDecision,
    RetentionCursor,
    TimePassed,
    VolatileChange,
)
from semel.groups.lasting import LastingGroup, LastingGroups
from semel.groups.membership import Membership, State
from semel.groups.records import (
    NO_TIMESTAMP,
    GroupForgotten,
    GroupRecord,
    OffsetForgotten,
    size_alone,
)
from semel.groups.settings import GroupSettings
from semel.groups.volatile import VolatileGroup, VolatileGroups
from semel.types import GroupId
from semel.world import Moment

GROUPS_LOOKED_AT_MAX = 500
"""In one step, so that nobody waits long behind it."""

RETENTION_LOOKS_MAX = 1_000
"""At an offset or a group, in one step likewise: the next goes on where it stopped."""


def expire(
    lasting: LastingGroups,
    volatile: VolatileGroups,
    command: Expire,
    settings: GroupSettings,
    at: Moment,
) -> GroupDecision:
    at = Moment(command.due_ms, at.wall_ms)
    group_ids, decisions = _end_sessions(volatile, command, settings, at)
    records = [record for decided in decisions for record in decided.records]
    retention: RetentionCursor | None = None
    # Retention is judged by what is recorded, so it waits until these records are applied.
    check_ms = volatile.retention_check_ms
    if not records and check_ms is not None and check_ms <= at.now_ms:
        records, retention = _outlived(lasting, volatile, command, settings, at)
    changes: list[VolatileChange] = [each for decided in decisions for each in decided.volatile]
    return GroupDecision(
        tuple(records),
        tuple(reply for decided in decisions for reply in decided.replies),
        (*changes, TimePassed(at.now_ms, tuple(group_ids), retention)),
    )


def _end_sessions(
    volatile: VolatileGroups, command: Expire, settings: GroupSettings, at: Moment
) -> tuple[list[GroupId], list[GroupDecision]]:
    """The groups that are done with, and what was decided about each."""
    group_ids: list[GroupId] = []
    decisions: list[GroupDecision] = []
    size_left = command.records_size_max
    too_large: tuple[GroupId, GroupDecision] | None = None
    for group_id in islice(volatile.due(at.now_ms), GROUPS_LOOKED_AT_MAX):
        decided = _expire_group(volatile.by_id.get(group_id), settings, at)
        size = sum(map(size_alone, decided.records))
        if size > size_left:
            if size_left < command.records_size_max:
                break
            # Those behind it may need no room at all.
            too_large = too_large or (group_id, decided)
            continue
        size_left -= size
        group_ids.append(group_id)
        decisions.append(decided)
    if too_large is not None and not group_ids:
        return [too_large[0]], [too_large[1]]
    return group_ids, decisions


def _expire_group(
    group: VolatileGroup | None, settings: GroupSettings, at: Moment
) -> GroupDecision:
    if group is None:
        return GroupDecision()
    deciding = Deciding(settings, at, group.sessions.deadline_ms)
    overdue = group.sessions.overdue(at.now_ms)
    after = leaving.expire(group.membership, overdue, deciding)
    return deciding.decided(deciding.change(group.membership, after))


def _outlived(
    lasting: LastingGroups,
    volatile: VolatileGroups,
    command: Expire,
    settings: GroupSettings,
    at: Moment,
) -> tuple[list[GroupRecord], RetentionCursor]:
    """As many as fit, one at least if there is any that was looked at; and where to go on."""
    cursor = volatile.retention or RetentionCursor(lasting.arrivals.next_number)
    size_left = command.records_size_max
    records: list[GroupRecord] = []
    looks = _looks(lasting, volatile, cursor, settings, at)
    for record, behind in islice(looks, RETENTION_LOOKS_MAX):
        if record is not None:
            size_left -= size_alone(record)
            if size_left < 0 and records:
                break
            records.append(record)
        cursor = behind
    return records, cursor


def _looks(
    lasting: LastingGroups,
    volatile: VolatileGroups,
    cursor: RetentionCursor,
    settings: GroupSettings,
    at: Moment,
) -> Iterator[tuple[GroupRecord | None, RetentionCursor]]:
    """For each look what it forgets, if anything, and where to go on behind it."""
    for number, group in lasting.arrivals.walk(cursor.group_number):
        if number >= cursor.end:
            break
        if number > cursor.group_number:
            cursor = RetentionCursor(cursor.end, number)
        membership = volatile.membership(group.group_id)
        assert membership is not None, f"{group.group_id} is not known"
        is_expected = group.group_id in volatile.by_id
        yield from _looks_into(group, membership, is_expected, cursor, settings, at)
    yield None, RetentionCursor(cursor.end, cursor.end)


def _looks_into(
    group: LastingGroup,
    membership: Membership,
    is_expected: bool,
    cursor: RetentionCursor,
    settings: GroupSettings,
    at: Moment,
) -> Iterator[tuple[GroupRecord | None, RetentionCursor]]:
    """At the offsets of one group that are left to be looked at, and at last at the group.

    `is_expected`: someone is about to join, or is a member.
    """
    following = RetentionCursor(cursor.end, cursor.group_number + 1)
    if membership.state is State.STABLE:
        subscribed = membership.subscribed_topics()
    else:
        subscribed = frozenset() if membership.state is State.EMPTY else None
    if subscribed is None:
        yield None, following
        return
    since_ms = NO_TIMESTAMP
    if membership.state is State.EMPTY and group.recorded is not None:
        since_ms = group.recorded_ms
    offsets, retention_ms = group.offsets, settings.offsets_retention_ms
    partitions = cursor.partitions
    if partitions is None:
        partitions = tuple(offsets.committed)
    forgotten_count = 0
    for number in range(cursor.partition_number, len(partitions)):
        partition = partitions[number]
        behind = cursor._replace(partitions=partitions, partition_number=number + 1)
        if partition.topic in subscribed or not offsets.has_expired(
            partition, at.now_ms, retention_ms, since_ms
        ):
            yield None, behind
        else:
            forgotten_count += 1
            yield OffsetForgotten(group.group_id, *partition), behind
    is_left = offsets.pending or forgotten_count < len(offsets.committed)
    if group.recorded is not None and not is_left and not is_expected:
        yield GroupForgotten(group.group_id), following
    else:
        yield None, following

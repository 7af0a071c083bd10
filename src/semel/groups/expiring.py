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
from semel.groups.deciding import Decided, Deciding, TimePassed, VolatileChange
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


def expire(
    lasting: LastingGroups,
    volatile: VolatileGroups,
    command: Expire,
    settings: GroupSettings,
    at: Moment,
) -> Decided:
    at = Moment(command.due_ms, at.wall_ms)
    group_ids, decisions = _end_sessions(volatile, command, settings, at)
    records = [record for decided in decisions for record in decided.records]
    retention_is_done = False
    # Retention is judged by what is recorded, so it waits until these records are applied.
    check_ms = volatile.retention_check_ms
    if not records and check_ms is not None and check_ms <= at.now_ms:
        outlived = _outlived(lasting, volatile, settings, at)
        records, retention_is_done = _as_many_as_fit(outlived, command.records_size_max)
    changes: list[VolatileChange] = [each for decided in decisions for each in decided.volatile]
    return Decided(
        tuple(records),
        tuple(reply for decided in decisions for reply in decided.replies),
        (*changes, TimePassed(at.now_ms, tuple(group_ids), retention_is_done)),
    )


def _end_sessions(
    volatile: VolatileGroups, command: Expire, settings: GroupSettings, at: Moment
) -> tuple[list[GroupId], list[Decided]]:
    """The groups that are done with, and what was decided about each."""
    group_ids: list[GroupId] = []
    decisions: list[Decided] = []
    size_left = command.records_size_max
    too_large: tuple[GroupId, Decided] | None = None
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


def _expire_group(group: VolatileGroup | None, settings: GroupSettings, at: Moment) -> Decided:
    if group is None:
        return Decided()
    deciding = Deciding(settings, at, group.sessions.deadline_ms)
    overdue = group.sessions.overdue(at.now_ms)
    after = leaving.expire(group.membership, overdue, deciding)
    return deciding.decided(deciding.change(group.membership, after))


def _as_many_as_fit(
    records: Iterator[GroupRecord], size_max: int
) -> tuple[list[GroupRecord], bool]:
    """At least one, if there is any; and whether these are all."""
    taken: list[GroupRecord] = []
    for record in records:
        size_max -= size_alone(record)
        if size_max < 0 and taken:
            return taken, False
        taken.append(record)
    return taken, True


def _outlived(
    lasting: LastingGroups, volatile: VolatileGroups, settings: GroupSettings, at: Moment
) -> Iterator[GroupRecord]:
    for group in lasting.by_id.values():
        membership = volatile.membership(group.group_id)
        assert membership is not None, f"{group.group_id} is not known"
        is_expected = group.group_id in volatile.by_id
        yield from _outlived_in(group, membership, is_expected, settings, at)


def _outlived_in(
    group: LastingGroup,
    membership: Membership,
    is_expected: bool,
    settings: GroupSettings,
    at: Moment,
) -> Iterator[GroupRecord]:
    """What forgets all that has outlived its retention in one group.

    `is_expected`: someone is about to join, or is a member.
    """
    subscribed: frozenset[str] | None = frozenset()
    if membership.state is State.STABLE:
        subscribed = membership.subscribed_topics()
    elif membership.state is not State.EMPTY:
        subscribed = None
    if subscribed is None:
        return
    since_ms = NO_TIMESTAMP
    if membership.state is State.EMPTY and group.recorded is not None:
        since_ms = group.recorded_ms
    topics = subscribed
    forgotten_count = 0
    for partition in group.offsets.expired(
        at.now_ms, settings.offsets_retention_ms, since_ms, lambda topic: topic in topics
    ):
        yield OffsetForgotten(group.group_id, *partition)
        forgotten_count += 1
    is_left = group.offsets.pending or forgotten_count < len(group.offsets.committed)
    if group.recorded is not None and not is_left and not is_expected:
        yield GroupForgotten(group.group_id)

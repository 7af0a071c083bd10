"""What is known of groups for as long as the process lives: members, sessions, who waits.

Law: it changes only in `adopt`, by decisions whose records are applied.

A group is here while it has members, or ids that were given out. Of all others what was recorded
says enough.
"""

from collections.abc import Iterator, Mapping

from semel.arrivals import Arrivals
from semel.deadlines import Deadlines
from semel.groups.commands import Ticket
from semel.groups.deciding import (
    GroupChanged,
    GroupDecision,
    RetentionCursor,
    SessionRenewed,
    TimePassed,
)
from semel.groups.lasting import LastingGroups
from semel.groups.membership import Membership, State
from semel.types import GroupId, MemberId


class Sessions:
    """Until when each member of a group, and each id that was given out, may be silent.

    Apart from the members, so that a heartbeat in a group of thousands changes one number.
    """

    __slots__ = ("_deadlines", "deadline_ms")

    def __init__(self) -> None:
        self.deadline_ms: dict[MemberId, int] = {}
        self._deadlines = Deadlines[MemberId]()

    def __repr__(self) -> str:
        return f"Sessions({self.deadline_ms}, {self._deadlines})"

    def overdue(self, now_ms: int) -> frozenset[MemberId]:
        """Also of members that wait for us, whom nobody reproaches with it."""
        return frozenset(
            member_id
            for member_id in self._deadlines.all_due(now_ms)
            if self.deadline_ms.get(member_id, now_ms + 1) <= now_ms
        )

    def next_ms(self) -> int | None:
        """It may be too early, never too late."""
        return self._deadlines.next_ms()

    def renew(self, member_id: MemberId, deadline_ms: int) -> None:
        self.deadline_ms[member_id] = deadline_ms
        self._deadlines.schedule(member_id, deadline_ms)

    def end(self, member_id: MemberId) -> None:
        del self.deadline_ms[member_id]
        self._deadlines.take(member_id)

    def looked_at(self, due_ms: int) -> None:
        for member_id in self._deadlines.take_due(due_ms):
            deadline_ms = self.deadline_ms.get(member_id)
            # Who is overdue and still there waits for us, and is given a new session by the reply.
            if deadline_ms is not None and deadline_ms > due_ms:
                self._deadlines.schedule(member_id, deadline_ms)


class VolatileGroup:
    __slots__ = ("membership", "number", "sessions")

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.number = -1
        """In the order in which groups came."""
        self.sessions = Sessions()

    def __repr__(self) -> str:
        return f"{self.membership} {self.sessions}"

    def next_deadline_ms(self) -> int | None:
        session_ms = self.sessions.next_ms()
        deadline_ms = self.membership.deadline_ms
        if session_ms is None or (deadline_ms is not None and deadline_ms < session_ms):
            return deadline_ms
        return session_ms


class VolatileGroups:
    def __init__(self, lasting: LastingGroups, retention_check_interval_ms: int) -> None:
        self._lasting = lasting
        self.by_id: dict[GroupId, VolatileGroup] = {}
        self.arrivals = Arrivals[VolatileGroup]()
        self.waiting: dict[Ticket, GroupId] = {}
        """JoinGroup and SyncGroup requests that have no reply yet."""
        self.retention_check_ms: int | None = None
        """When the ages of offsets are looked at next; None before the first start."""
        self.retention: RetentionCursor | None = None
        """Where that goes on; None if it has to begin anew."""
        self.retention_check_interval_ms = retention_check_interval_ms
        self._deadlines = Deadlines[GroupId]()

    def __repr__(self) -> str:
        retention = f"{self.retention_check_ms} {self.retention}"
        return f"{self.by_id} {self.waiting} {retention} {self._deadlines}"

    def membership(self, group_id: GroupId) -> Membership | None:
        """Also of a group that is not here; None if there is nothing at all that it left."""
        held = self.by_id.get(group_id)
        if held is not None:
            return held.membership
        lasting = self._lasting.by_id.get(group_id)
        if lasting is None:
            return None
        recorded = lasting.recorded
        return Membership(group_id) if recorded is None else Membership.from_record(recorded)

    def sessions(self, group_id: GroupId) -> Mapping[MemberId, int]:
        held = self.by_id.get(group_id)
        return {} if held is None else held.sessions.deadline_ms

    def due(self, now_ms: int) -> Iterator[GroupId]:
        """Groups to be looked at, the most urgent first; there may be nothing to do in them."""
        return self._deadlines.all_due(now_ms)

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def start(self, now_ms: int) -> None:
        self.retention_check_ms = now_ms + self.retention_check_interval_ms

    def adopt(self, decided: GroupDecision) -> None:
        for change in decided.volatile:
            if isinstance(change, SessionRenewed):
                group = self.by_id[change.group_id]
                group.sessions.renew(change.member_id, change.deadline_ms)
                self._schedule(change.group_id, group)
            elif isinstance(change, GroupChanged):
                self._adopt_group(change)
            else:
                self._adopt_time(change)
        if self.waiting:
            for ticket, _ in decided.replies:
                self.waiting.pop(ticket, None)

    def _adopt_group(self, change: GroupChanged) -> None:
        group_id = change.group_id
        group = self.by_id.get(group_id)
        if change.membership is not None:
            if group is None:
                group = self.by_id[group_id] = VolatileGroup(change.membership)
                group.number = self.arrivals.add(group)
            group.membership = change.membership
        assert group is not None, f"{group_id} is not known"
        for member_id, deadline_ms in change.sessions.items():
            if deadline_ms is None:
                group.sessions.end(member_id)
            else:
                group.sessions.renew(member_id, deadline_ms)
        if change.arrived is not None:
            self.waiting[change.arrived] = group_id
        if change.left is not None:
            self.waiting.pop(change.left, None)
        if group.membership.state is State.DEAD or not group.sessions.deadline_ms:
            assert not group.membership.members, f"{group_id} has members without a session"
            del self.by_id[group_id]
            self.arrivals.remove(group.number)
        else:
            self._schedule(group_id, group)

    def _adopt_time(self, passed: TimePassed) -> None:
        for group_id in passed.group_ids:
            self._deadlines.take(group_id)
            group = self.by_id.get(group_id)
            if group is not None:
                group.sessions.looked_at(passed.due_ms)
                self._schedule(group_id, group)
        # Entries of groups that are gone would call for a look again and again.
        self._deadlines.due(passed.due_ms)
        if passed.retention is not None:
            self.retention = passed.retention
            if self.retention.is_at_end:
                self.retention = None
                self.start(passed.due_ms)

    def _schedule(self, group_id: GroupId, group: VolatileGroup) -> None:
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is not None:
            self._deadlines.schedule(group_id, deadline_ms)

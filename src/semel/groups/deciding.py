"""What a decision about groups is, and one that is being made.

A decision is a value. Its records are appended as one frame and applied; only then is it adopted,
and the replies, which may be those of earlier requests that had to wait, are sent when that frame
is durable. Whoever could not append it drops it, and nothing has happened.
"""

from collections.abc import Mapping
from typing import NamedTuple

from semel.groups.commands import Reply, Ticket
from semel.groups.members import Member
from semel.groups.membership import Membership
from semel.groups.records import GroupRecord
from semel.groups.settings import GroupSettings
from semel.types import GroupId, MemberId, TopicPartition
from semel.world import Moment


class SessionRenewed(NamedTuple):
    """A member has shown life: all that a heartbeat changes, however large its group is."""

    group_id: GroupId
    member_id: MemberId
    deadline_ms: int


class GroupChanged(NamedTuple):
    """What the volatile part of a group becomes."""

    group_id: GroupId
    membership: Membership | None
    """None: it stays what it is."""
    sessions: Mapping[MemberId, int | None]
    """Until when those last that change; None ends one."""
    arrived: Ticket | None = None
    """A request that has to wait for its reply from now on."""
    left: Ticket | None = None
    """One that waits no more, and gets no reply."""


class RetentionCursor(NamedTuple):
    """How far a look at the ages of all offsets has come. Who came later is for the next one."""

    end: int
    """The number behind those of all groups that there were."""
    group_number: int = 0
    """Of the group to look at next, or of one before it that has gone."""
    partitions: tuple[TopicPartition, ...] | None = None
    """Those of this group, if it was begun with."""
    partition_number: int = 0

    @property
    def is_at_end(self) -> bool:
        return self.group_number >= self.end


class TimePassed(NamedTuple):
    """What was due at a time is done."""

    due_ms: int
    group_ids: tuple[GroupId, ...]
    """Whose sessions and deadlines were looked at."""
    retention: RetentionCursor | None
    """How far the offsets were looked at; None if that was not due."""


VolatileChange = SessionRenewed | GroupChanged | TimePassed


class GroupDecision(NamedTuple):
    records: tuple[GroupRecord, ...] = ()
    replies: tuple[tuple[Ticket, Reply], ...] = ()
    volatile: tuple[VolatileChange, ...] = ()
    """For `Groups.adopt`, and for no one else to look into."""


def answered(ticket: Ticket, reply: Reply) -> GroupDecision:
    """A reply, and nothing has changed."""
    return GroupDecision(replies=((ticket, reply),))


class Deciding:
    """A decision about one group: its moment, its limits, and what it leads to so far.

    A session belongs to each member, and to each id that was given out with MEMBER_ID_REQUIRED
    and that is expected to come back.
    """

    def __init__(
        self, settings: GroupSettings, at: Moment, sessions: Mapping[MemberId, int]
    ) -> None:
        self.settings = settings
        self.now_ms = at.now_ms
        self.wall_ms = at.wall_ms
        self.records: list[GroupRecord] = []
        self.replies: list[tuple[Ticket, Reply]] = []
        self._held_sessions = sessions
        self._sessions: dict[MemberId, int | None] = {}
        self._session_count = len(sessions)

    def write(self, record: GroupRecord) -> None:
        self.records.append(record)

    def answer(self, ticket: Ticket | None, reply: Reply) -> None:
        """A ticket of None is one whose connection is gone."""
        if ticket is not None:
            self.replies.append((ticket, reply))

    def _deadline_ms(self, member_id: MemberId) -> int | None:
        if member_id in self._sessions:
            return self._sessions[member_id]
        return self._held_sessions.get(member_id)

    def begin_session(self, member_id: MemberId, deadline_ms: int) -> None:
        if self._deadline_ms(member_id) is None:
            self._session_count += 1
        self._sessions[member_id] = deadline_ms

    def renew_session(self, member: Member) -> None:
        self.begin_session(member.member_id, self.now_ms + member.session_timeout_ms)

    def rename_session(self, member_id: MemberId, new_id: MemberId) -> None:
        deadline_ms = self._deadline_ms(member_id)
        assert deadline_ms is not None, f"{member_id} has no session"
        self.end_session(member_id)
        self.begin_session(new_id, deadline_ms)

    def end_session(self, member_id: MemberId) -> None:
        if self._deadline_ms(member_id) is None:
            return
        self._session_count -= 1
        if member_id in self._held_sessions:
            self._sessions[member_id] = None
        else:
            del self._sessions[member_id]

    def expects(self, group: Membership, member_id: MemberId) -> bool:
        """Whether it was given out, and nobody has joined under it yet."""
        return member_id not in group.members and self._deadline_ms(member_id) is not None

    def expects_more(self, group: Membership) -> bool:
        """Whether anybody was given an id and has not joined yet."""
        return self._session_count > len(group.members)

    def change(
        self,
        before: Membership,
        after: Membership,
        *,
        arrived: Ticket | None = None,
        left: Ticket | None = None,
    ) -> tuple[VolatileChange, ...]:
        if after is before and not self._sessions and arrived is None and left is None:
            return ()
        # Without a session yet, nobody was in the group or expected there.
        is_same = after is before and self._held_sessions
        membership = None if is_same else after
        return (GroupChanged(before.group_id, membership, self._sessions, arrived, left),)

    def decided(self, volatile: tuple[VolatileChange, ...] = ()) -> GroupDecision:
        return GroupDecision(tuple(self.records), tuple(self.replies), volatile)

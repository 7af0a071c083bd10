"""All consumer groups of a lane: `decide` changes nothing, `apply` and `adopt` change all.

Laws
- What lasts (a generation's record, offsets) changes only in `apply` and `apply_marker`, live and
  at recovery alike. What is volatile changes only in `adopt`.
- A decision's records are appended as one frame and applied before it is adopted. One that is not
  adopted can be made again, and is the same then.
- A JoinGroup or SyncGroup that has to wait has no reply in its own decision and exactly one in a
  later one, unless its ticket is forgotten first.
"""

from collections.abc import Callable, Iterator

from semel.arrivals import Arrivals
from semel.errors import (
    NONE,
    InvalidGroupId,
    RebalanceInProgress,
    RequestError,
    UnknownMemberId,
)
from semel.groups import committing, deleting, expiring, joining, leaving, rebalance
from semel.groups.commands import (
    NO_MEMBER_ID,
    Command,
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DeleteOffsetsReply,
    Expire,
    FetchedOffset,
    FetchOffsets,
    ForgetIds,
    ForgetTicket,
    ForgetTopic,
    GroupDescription,
    GroupListing,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    LeftMember,
    Sync,
    SyncReply,
    Ticket,
)
from semel.groups.deciding import Deciding, GroupDecision, SessionRenewed, answered
from semel.groups.lasting import GroupsSnapshot, LastingGroup, LastingGroups
from semel.groups.membership import Membership, State
from semel.groups.records import GroupRecord
from semel.groups.settings import STRING_BYTES_MAX, GroupSettings
from semel.groups.volatile import VolatileGroups
from semel.types import NO_PRODUCER_ID, GroupId, ProducerId, TopicPartition
from semel.world import Moment


class Groups:
    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._lasting = LastingGroups()
        self._volatile = self._nobody()

    def configure(self, settings: GroupSettings) -> None:
        """Decide by these from here on; who is a member already stays one."""
        self._settings = settings
        self._volatile.retention_check_interval_ms = settings.retention_check_interval_ms

    def _nobody(self) -> VolatileGroups:
        return VolatileGroups(self._lasting, self._settings.retention_check_interval_ms)

    # Deciding

    def decide(  # noqa: PLR0911  One case per command.
        self, command: Command, ticket: Ticket, at: Moment
    ) -> GroupDecision:
        """`ticket` names the request that asks, in its reply."""
        match command:
            case CommitOffsets():
                return self._commit_offsets(command, ticket, at)
            case Heartbeat():
                return self._heartbeat(command, ticket, at)
            case Join():
                return self._join(command, ticket, at)
            case Sync():
                return self._sync(command, ticket, at)
            case Leave():
                return self._leave(command, ticket, at)
            case DeleteOffsets():
                return self._delete_offsets(command, ticket)
            case DeleteGroups():
                return deleting.delete_groups(self._lasting, self._volatile, command, ticket)
            case ForgetTicket():
                return self._forget_ticket(command, at)
            case ForgetIds():
                return self._forget_ids(command, at)
            case ForgetTopic():
                return deleting.forget_topic(self._lasting, command)
            case Expire():
                return expiring.expire(self._lasting, self._volatile, command, self._settings, at)

    def _join(self, command: Join, ticket: Ticket, at: Moment) -> GroupDecision:
        try:
            joining.check(command, self._settings)
            group = self._group_to_join(command)
            deciding = self._deciding(group, at)
            after = joining.join(group, command, ticket, deciding)
        except RequestError as refusal:
            return answered(ticket, JoinReply(refusal.code, command.member_id))
        return _decided(deciding, group, after, ticket)

    def _sync(self, command: Sync, ticket: Ticket, at: Moment) -> GroupDecision:
        try:
            group = self._group_with_members(command.group_id)
            deciding = self._deciding(group, at)
            after = rebalance.sync(group, command, ticket, deciding)
        except RequestError as refusal:
            return answered(ticket, SyncReply(refusal.code))
        return _decided(deciding, group, after, ticket)

    def _heartbeat(self, command: Heartbeat, ticket: Ticket, at: Moment) -> GroupDecision:
        try:
            group = self._group_with_members(command.group_id)
            member = group.member(command.member_id, command.group_instance_id)
            group.check_generation(command.generation)
        except RequestError as refusal:
            return answered(ticket, HeartbeatReply(refusal.code))
        preparing = group.state is State.PREPARING_REBALANCE
        reply = HeartbeatReply(RebalanceInProgress.code if preparing else NONE)
        deadline_ms = at.now_ms + member.session_timeout_ms
        renewed = SessionRenewed(group.group_id, member.member_id, deadline_ms)
        return GroupDecision((), ((ticket, reply),), (renewed,))

    def _leave(self, command: Leave, ticket: Ticket, at: Moment) -> GroupDecision:
        try:
            group = self._group_with_members(command.group_id)
        except InvalidGroupId as refusal:
            return answered(ticket, LeaveReply(refusal.code))
        except UnknownMemberId as refusal:
            unknown = tuple(LeftMember(*member, refusal.code) for member in command.members)
            return answered(ticket, LeaveReply(NONE, unknown))
        deciding = self._deciding(group, at)
        after = leaving.leave(group, command, ticket, deciding)
        return deciding.decided(deciding.change(group, after))

    def _forget_ticket(self, command: ForgetTicket, at: Moment) -> GroupDecision:
        group_id = self._volatile.waiting.get(command.ticket)
        if group_id is None:
            return GroupDecision()
        group = self._volatile.by_id[group_id].membership
        deciding = self._deciding(group, at)
        after = leaving.abandon(group, command.ticket, deciding)
        return deciding.decided(deciding.change(group, after, left=command.ticket))

    def _forget_ids(self, command: ForgetIds, at: Moment) -> GroupDecision:
        held = self._volatile.by_id.get(command.group_id)
        if held is None:
            return GroupDecision()
        deciding = self._deciding(held.membership, at)
        after = leaving.forget_ids(held.membership, command, deciding)
        return deciding.decided(deciding.change(held.membership, after))

    def _commit_offsets(self, command: CommitOffsets, ticket: Ticket, at: Moment) -> GroupDecision:
        group = self._volatile.membership(command.group_id)
        try:
            if command.in_transaction or command.group_id:
                _check_group_id(command.group_id)
            committing.check_commit(group, command)
        except RequestError as refusal:
            return committing.refuse_commit(command, ticket, refusal.code)
        return committing.commit(group, command, ticket, self._settings, at)

    def _delete_offsets(self, command: DeleteOffsets, ticket: Ticket) -> GroupDecision:
        group_id = command.group_id
        group, stored = self._volatile.membership(group_id), self._lasting.by_id.get(group_id)
        try:
            _check_group_id(group_id)
            return deleting.delete_offsets(group, stored, command, ticket)
        except RequestError as refusal:
            return answered(ticket, DeleteOffsetsReply(refusal.code))

    def _deciding(self, group: Membership, at: Moment) -> Deciding:
        return Deciding(self._settings, at, self._volatile.sessions(group.group_id))

    def _group_to_join(self, command: Join) -> Membership:
        _check_group_id(command.group_id)
        group = self._volatile.membership(command.group_id)
        if group is None:
            if command.member_id != NO_MEMBER_ID:
                raise UnknownMemberId(f"{command.group_id} is not a group")
            group = Membership(command.group_id)
        return group

    def _group_with_members(self, group_id: GroupId) -> Membership:
        group = self._volatile.membership(group_id)
        if group is None or not group_id:
            _check_group_id(group_id)
            raise UnknownMemberId(f"{group_id} is not a group")
        return group

    # Changing

    def apply(
        self, record: GroupRecord, now_ms: int, producer_id: ProducerId = NO_PRODUCER_ID
    ) -> None:
        """Records must come in the order of the log, live and at recovery alike."""
        self._lasting.apply(record, now_ms, producer_id)

    def apply_marker(self, producer_id: ProducerId, committed: bool) -> None:
        """The transaction of this producer has ended; its pending offsets become final or go."""
        self._lasting.apply_marker(producer_id, committed)

    def adopt(self, decided: GroupDecision) -> None:
        """Its records, if it has any, are in the journal and applied."""
        self._volatile.adopt(decided)

    @property
    def lasting(self) -> Arrivals[LastingGroup]:
        """All groups. What lasts of one is `recorded`, `recorded_ms` and `offsets`."""
        return self._lasting.arrivals

    @property
    def order(self) -> int:
        """Of the last offset that was committed."""
        return self._lasting.order

    def before_change(self, tell: Callable[[LastingGroup], None] | None) -> None:
        """From now on `tell` is told of a group before what lasts of it changes."""
        self._lasting.before_change = tell

    def restore(self, snapshot: GroupsSnapshot) -> None:
        self._lasting.restore(snapshot)

    def start_sessions(self, at: Moment) -> None:
        """All records are applied: members of recorded generations are known again, and every
        session gets a full timeout."""
        self._volatile = self._nobody()
        self._volatile.start(at.now_ms)
        for stored in self._lasting.by_id.values():
            if stored.recorded is None or not stored.recorded.members:
                continue
            group = Membership.from_record(stored.recorded)
            deciding = Deciding(self._settings, at, {})
            for member in group.members.values():
                deciding.renew_session(member)
            after = group
            if len(group.members) > self._settings.member_count_max:
                after = rebalance.begin(group, deciding)
            self.adopt(deciding.decided(deciding.change(Membership(group.group_id), after)))

    # Reading

    def fetch_offsets(self, command: FetchOffsets) -> tuple[FetchedOffset, ...]:
        return committing.fetch(self._lasting.by_id.get(command.group_id), command)

    def committed(self, group_id: GroupId) -> Iterator[tuple[TopicPartition, int]]:
        """Each offset as it is now, however long the reader takes."""
        group = self._lasting.by_id.get(group_id)
        if group is not None:
            for partition, stored in group.offsets.committed.copy().items():
                yield partition, stored.record.offset

    def describe(self, group_id: GroupId) -> GroupDescription | None:
        group = self._volatile.membership(group_id)
        return None if group is None else group.described()

    def listed(self) -> Iterator[GroupListing]:
        """All, each as it is when its turn comes: others may come and go meanwhile."""
        for _, stored in self._lasting.arrivals.walk():
            group = self._volatile.membership(stored.group_id)
            assert group is not None, f"{stored.group_id} is not known"
            yield group.listed()
        for _, held in self._volatile.arrivals.walk():
            if held.membership.group_id not in self._lasting.by_id:
                yield held.membership.listed()

    def next_deadline_ms(self) -> int | None:
        """When `Expire` is to be decided next; it may find nothing to do then."""
        deadline_ms = self._volatile.next_deadline_ms()
        check_ms = self._volatile.retention_check_ms
        if check_ms is None or not (self._lasting.by_id or self._volatile.by_id):
            return deadline_ms
        return check_ms if deadline_ms is None or check_ms < deadline_ms else deadline_ms

    def snapshot(self) -> GroupsSnapshot:
        return self._lasting.snapshot()


def _decided(
    deciding: Deciding, before: Membership, after: Membership, ticket: Ticket
) -> GroupDecision:
    """Of a request that may have to wait."""
    is_answered = any(ticket == answered_ticket for answered_ticket, _ in deciding.replies)
    arrived = None if is_answered else ticket
    return deciding.decided(deciding.change(before, after, arrived=arrived))


def _check_group_id(group_id: GroupId) -> None:
    if not group_id or len(group_id.encode()) > STRING_BYTES_MAX:
        raise InvalidGroupId("a group's id must not be empty, nor too long to be stored")

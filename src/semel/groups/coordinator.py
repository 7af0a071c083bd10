"""All consumer groups of a lane: commands in, records and replies out.

Laws
- Lasting state (a generation's record, offsets) changes only in `apply` and `apply_marker`.
- A command that is refused changes nothing.
- A JoinGroup or SyncGroup that has to wait has no reply in its own Step and exactly one in a
  later Step, unless its ticket is forgotten first.

The caller reserves `bytes_max(command)` before it calls, appends the records of the Step as one
frame, applies each, and sends the replies when that frame is durable.
"""

from collections.abc import Collection

from semel.deadlines import Deadlines
from semel.errors import (
    NONE,
    InvalidGroupId,
    RebalanceInProgress,
    RequestError,
    UnknownMemberId,
)
from semel.groups import administering, committing, joining, leaving, rebalance, retention, room
from semel.groups.commands import (
    NO_MEMBER_ID,
    CommitOffsets,
    CommitReply,
    DeleteGroups,
    DeleteOffsets,
    DeleteOffsetsReply,
    FetchedOffset,
    FetchOffsets,
    GroupDescription,
    GroupListing,
    Heartbeat,
    HeartbeatReply,
    Join,
    JoinReply,
    Leave,
    LeaveReply,
    LeftMember,
    PartitionOutcome,
    Reply,
    Step,
    Sync,
    SyncReply,
    Ticket,
)
from semel.groups.group import Group
from semel.groups.lasting import LastingGroups
from semel.groups.records import GroupRecord, OffsetForgotten
from semel.groups.settings import STRING_BYTES_MAX, GroupSettings
from semel.groups.snapshot import GroupsSnapshot
from semel.groups.states import State
from semel.groups.turn import Turn
from semel.types import NO_PRODUCER_ID, GroupId, MemberId, ProducerId, TopicPartition
from semel.world import Moment, Randomness


class Groups:
    def __init__(self, settings: GroupSettings, randomness: Randomness) -> None:
        self._settings = settings
        self._randomness = randomness
        self._lasting = LastingGroups()
        self._groups = self._lasting.by_id
        self._waiting: dict[Ticket, GroupId] = {}
        self._deadlines = Deadlines[GroupId]()
        self._retention_check_ms: int | None = None

    # Members

    def join(self, command: Join, ticket: Ticket, at: Moment) -> Step:
        turn = Turn(self._settings, at)
        try:
            joining.check(command, self._settings)
            group = self._group_to_join(command)
            joining.join(group, command, ticket, turn, self._randomness)
        except RequestError as refusal:
            return _answered(ticket, JoinReply(refusal.code, command.member_id))
        self._groups[command.group_id] = group
        self._waiting[ticket] = group.group_id
        self._keep(group)
        return self._close(turn)

    def sync(self, command: Sync, ticket: Ticket, at: Moment) -> Step:
        turn = Turn(self._settings, at)
        try:
            group = self._group_with_members(command.group_id)
            rebalance.sync(group, command, ticket, turn)
        except RequestError as refusal:
            return _answered(ticket, SyncReply(refusal.code))
        self._waiting[ticket] = group.group_id
        self._keep(group)
        return self._close(turn)

    def heartbeat(self, command: Heartbeat, ticket: Ticket, at: Moment) -> Step:
        try:
            group = self._group_with_members(command.group_id)
            member = group.member(command.member_id, command.group_instance_id)
            group.check_generation(command.generation)
        except RequestError as refusal:
            return _answered(ticket, HeartbeatReply(refusal.code))
        member.renew(at.now_ms)
        preparing = group.state is State.PREPARING_REBALANCE
        return _answered(ticket, HeartbeatReply(RebalanceInProgress.code if preparing else NONE))

    def leave(self, command: Leave, ticket: Ticket, at: Moment) -> Step:
        turn = Turn(self._settings, at)
        try:
            group = self._group_with_members(command.group_id)
        except InvalidGroupId as refusal:
            return _answered(ticket, LeaveReply(refusal.code))
        except UnknownMemberId as refusal:
            unknown = tuple(LeftMember(*member, refusal.code) for member in command.members)
            return _answered(ticket, LeaveReply(NONE, unknown))
        left = leaving.leave(group, command, turn)
        turn.answer(ticket, LeaveReply(NONE, left))
        self._keep(group)
        return self._close(turn)

    def forget_ticket(self, ticket: Ticket, at: Moment) -> Step:
        """The connection that waits for this reply is gone."""
        turn = Turn(self._settings, at)
        group = self._groups.get(self._waiting.pop(ticket, GroupId("")))
        if group is None:
            return turn.step()
        leaving.abandon(group, ticket, turn)
        self._keep(group)
        return self._close(turn)

    def forget_ids(self, group_id: GroupId, member_ids: Collection[MemberId], at: Moment) -> Step:
        """Nobody will join under these, which were given out with MEMBER_ID_REQUIRED."""
        turn = Turn(self._settings, at)
        group = self._groups.get(group_id)
        if group is not None:
            for member_id in member_ids:
                group.expects_no_more(member_id)
            rebalance.settle(group, turn)
            self._keep(group)
        return self._close(turn)

    # Offsets

    def commit_offsets(self, command: CommitOffsets, ticket: Ticket, at: Moment) -> Step:
        group = self._groups.get(command.group_id)
        step = self._commit(group, command, ticket, at, in_transaction=False)
        if group is not None and step.records and command.member_id in group.members:
            group.members[command.member_id].renew(at.now_ms)
        return step

    def commit_offsets_in_transaction(
        self, command: CommitOffsets, ticket: Ticket, at: Moment
    ) -> Step:
        """The records belong to the producer's transaction: apply them with its producer id."""
        group = self._groups.get(command.group_id)
        return self._commit(group, command, ticket, at, in_transaction=True)

    def fetch_offsets(self, command: FetchOffsets) -> tuple[FetchedOffset, ...]:
        return committing.fetch(self._groups.get(command.group_id), command)

    def delete_offsets(self, command: DeleteOffsets, ticket: Ticket, at: Moment) -> Step:
        turn = Turn(self._settings, at)
        try:
            _check_group_id(command.group_id)
            committing.delete(self._groups.get(command.group_id), command, ticket, turn)
        except RequestError as refusal:
            return _answered(ticket, DeleteOffsetsReply(refusal.code))
        return self._close(turn)

    def forget_partitions(self, partitions: Collection[TopicPartition]) -> Step:
        """Their topics are being deleted. Changes nothing by itself: measure, then append."""
        gone = set(partitions)
        return Step(
            tuple(
                OffsetForgotten(group.group_id, *partition)
                for group in self._groups.values()
                for partition in sorted(gone & group.offsets.partitions())
            )
        )

    # Whole groups

    def delete_groups(self, command: DeleteGroups, ticket: Ticket, at: Moment) -> Step:
        turn = Turn(self._settings, at)
        administering.delete(self._lasting, command, ticket, turn)
        return self._close(turn)

    def describe(self, group_id: GroupId) -> GroupDescription | None:
        group = self._groups.get(group_id)
        return None if group is None else group.describe()

    def list_groups(self, states: Collection[str] = ()) -> list[GroupListing]:
        return administering.listings(self._groups.values(), states)

    # Time

    def expire(self, at: Moment, bytes_max: int = room.STEP_BYTES_MAX) -> Step:
        """Do what is due; its records take at most `bytes_max`.

        If that was not enough, `next_deadline_ms` stays in the past.
        """
        turn = Turn(self._settings, at)
        bytes_left = bytes_max
        while (group_id := self._deadlines.due(turn.now_ms)) is not None:
            group = self._groups.get(group_id)
            if group is None:
                self._deadlines.take(group_id)
                continue
            bytes_left -= room.empty_generation_bytes(group)
            if bytes_left < 0:
                break
            self._deadlines.take(group_id)
            leaving.expire(group, turn)
            self._keep(group)
        # Retention is judged by what is recorded, so it waits until these records are applied.
        if not turn.records:
            self._retire(turn, bytes_max)
        return self._close(turn)

    def expire_bytes_min(self, now_ms: int) -> int:
        """What `expire` must be given to get on."""
        group_id = self._deadlines.due(now_ms)
        if group_id is None:
            return room.STEP_BYTES_MAX
        group = self._groups.get(group_id)
        return 0 if group is None else room.empty_generation_bytes(group)

    def next_deadline_ms(self) -> int | None:
        """When `expire` is to be called next; it may find nothing to do then."""
        deadlines = [self._deadlines.next_ms()]
        if self._groups:
            deadlines.append(self._retention_check_ms)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # What lasts

    def apply(
        self, record: GroupRecord, now_ms: int, producer_id: ProducerId = NO_PRODUCER_ID
    ) -> None:
        """Records must come in the order of the log, live and at recovery alike."""
        self._lasting.apply(record, now_ms, producer_id)

    def apply_marker(self, producer_id: ProducerId, committed: bool) -> None:
        """The transaction of this producer has ended; its pending offsets become final or go."""
        self._lasting.apply_marker(producer_id, committed)

    def snapshot(self) -> GroupsSnapshot:
        return self._lasting.snapshot()

    def restore(self, snapshot: GroupsSnapshot) -> None:
        self._lasting.restore(snapshot)

    def recovered(self, at: Moment) -> None:
        """All records are applied: members of recorded generations are known again."""
        turn = Turn(self._settings, at)
        self._close(turn)
        for group in self._groups.values():
            group.recover(at.now_ms)
            if len(group.members) > self._settings.member_count_max:
                rebalance.begin(group, turn)
            self._schedule(group)

    def bytes_max(self, command: room.Command) -> int:
        """A bound of the bytes of the records that this command may write now."""
        if isinstance(command, DeleteGroups):
            groups = (self._groups.get(group_id) for group_id in set(command.group_ids))
            return sum(room.bytes_max(command, group) for group in groups)
        return room.bytes_max(command, self._groups.get(command.group_id))

    def _group_to_join(self, command: Join) -> Group:
        _check_group_id(command.group_id)
        group = self._groups.get(command.group_id)
        if group is None:
            if command.member_id != NO_MEMBER_ID:
                raise UnknownMemberId(f"{command.group_id} is not a group")
            group = Group(command.group_id)
        return group

    def _group_with_members(self, group_id: GroupId) -> Group:
        _check_group_id(group_id)
        group = self._groups.get(group_id)
        if group is None:
            raise UnknownMemberId(f"{group_id} is not a group")
        return group

    def _commit(
        self,
        group: Group | None,
        command: CommitOffsets,
        ticket: Ticket,
        at: Moment,
        in_transaction: bool,
    ) -> Step:
        turn = Turn(self._settings, at)
        try:
            if in_transaction or command.group_id:
                _check_group_id(command.group_id)
            committing.check_commit(group, command, in_transaction)
        except RequestError as refusal:
            partitions = (TopicPartition(asked.topic, asked.partition) for asked in command.offsets)
            refused = tuple(PartitionOutcome(partition, refusal.code) for partition in partitions)
            return _answered(ticket, CommitReply(refused))
        committing.commit(command, ticket, turn)
        return self._close(turn)

    def _retire(self, turn: Turn, bytes_left: int) -> None:
        if self._retention_check_ms is None or self._retention_check_ms > turn.now_ms:
            return
        for group in self._groups.values():
            bytes_left -= retention.retire(group, bytes_left, turn)
            if bytes_left <= 0:
                return
        self._retention_check_ms = turn.now_ms + self._settings.retention_check_interval_ms

    def _keep(self, group: Group) -> None:
        """The group has moved: it may be done with, or have another deadline."""
        self._lasting.drop_if_vacant(group)
        self._schedule(group)

    def _schedule(self, group: Group) -> None:
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is not None:
            self._deadlines.schedule(group.group_id, deadline_ms)

    def _close(self, turn: Turn) -> Step:
        for ticket, _ in turn.replies:
            self._waiting.pop(ticket, None)
        if self._retention_check_ms is None:
            self._retention_check_ms = turn.now_ms + self._settings.retention_check_interval_ms
        return turn.step()


def _answered(ticket: Ticket, reply: Reply) -> Step:
    return Step(replies=((ticket, reply),))


def _check_group_id(group_id: GroupId) -> None:
    if not group_id or len(group_id.encode()) > STRING_BYTES_MAX:
        raise InvalidGroupId("a group's id must not be empty, nor too long to be stored")

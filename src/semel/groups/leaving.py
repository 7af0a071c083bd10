"""How members go: by their own word, by silence, or with a connection that broke too early."""

from semel.errors import NONE, RequestError, UnknownMemberId
from semel.groups.commands import (
    NO_MEMBER_ID,
    JoinReply,
    Leave,
    LeftMember,
    MemberIdentity,
    Ticket,
)
from semel.groups.group import Group
from semel.groups.members import Awaited, Member
from semel.groups.rebalance import begin, dismiss, settle
from semel.groups.states import State
from semel.groups.turn import Turn


def leave(group: Group, command: Leave, turn: Turn) -> tuple[LeftMember, ...]:
    left = []
    member_count = len(group.members)
    for leaving in command.members:
        try:
            _leave_one(group, leaving, turn)
            error_code = NONE
        except RequestError as refusal:
            error_code = refusal.code
        left.append(LeftMember(*leaving, error_code))
    if len(group.members) < member_count:
        _go_on(group, turn)
    elif any(member.error_code == NONE for member in left):
        # Only ids that no one had joined with: there is less to wait for, and that is all.
        settle(group, turn)
    return tuple(left)


def _leave_one(group: Group, leaving: MemberIdentity, turn: Turn) -> None:
    member_id, instance_id = leaving
    if group.expects_no_more(member_id):
        return
    if member_id == NO_MEMBER_ID and instance_id is not None:
        # An administrator removes a static member without knowing its current id.
        member_id = group.instances.get(instance_id, NO_MEMBER_ID)
    _remove(group, group.member(member_id, instance_id), turn)


def abandon(group: Group, ticket: Ticket, turn: Turn) -> None:
    """The connection that waits for this reply is gone."""
    member = group.waiting_with(ticket)
    if member is None:
        return
    member.ticket = None
    if member.awaits is Awaited.SYNC:
        member.awaits = Awaited.NOTHING
        member.renew(turn.now_ms)
    elif member.is_new and member.group_instance_id is None:
        # It owns nothing yet. If its client lives, it joins again and is as new as before;
        # if not, the others would wait for it, or share their partitions with no one.
        _remove(group, member, turn)
        _go_on(group, turn)


def expire(group: Group, turn: Turn) -> None:
    """Remove who did not come, join, sync or show life in time, and go on without them."""
    group.pending_members.difference_update(group.pending_deadlines.take_due(turn.now_ms))
    sync_is_over = group.sync_deadline_ms is not None and group.sync_deadline_ms <= turn.now_ms
    gone = [
        member
        for member in group.members.values()
        if (member.expires_at_ms is not None and member.expires_at_ms <= turn.now_ms)
        or (sync_is_over and member.member_id in group.unsynced)
    ]
    for member in gone:
        _remove(group, member, turn)
    if gone:
        _go_on(group, turn)
    else:
        settle(group, turn)


def _remove(group: Group, member: Member, turn: Turn) -> None:
    """The caller begins and settles a rebalance when all who go have gone."""
    # The reply does not name the member id, so that the client asks for a new one.
    if member.awaits is Awaited.JOIN:
        turn.answer(member.ticket, JoinReply(UnknownMemberId.code, NO_MEMBER_ID))
    else:
        dismiss(member, UnknownMemberId.code, turn)
    group.discard(member)


def _go_on(group: Group, turn: Turn) -> None:
    if group.state is not State.EMPTY:
        begin(group, turn)
        settle(group, turn)

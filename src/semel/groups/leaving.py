"""How members go: by their own word, by silence, or with a connection that broke too early."""

from collections.abc import Collection

from semel.errors import NONE, RequestError, UnknownMemberId
from semel.groups.commands import (
    NO_MEMBER_ID,
    ForgetIds,
    JoinReply,
    Leave,
    LeaveReply,
    LeftMember,
    MemberIdentity,
    Ticket,
)
from semel.groups.deciding import Deciding
from semel.groups.members import Awaited, Member
from semel.groups.membership import Membership, State
from semel.groups.rebalance import begin, complete_if_ready, dismissed
from semel.types import MemberId


def leave(group: Membership, command: Leave, ticket: Ticket, deciding: Deciding) -> Membership:
    left: list[LeftMember] = []
    gone: dict[MemberId, Member] = {}
    for leaving in command.members:
        try:
            member = _leaving_member(group, leaving, gone, deciding)
            error_code = NONE
        except RequestError as refusal:
            error_code = refusal.code
        else:
            if member is not None:
                gone[member.member_id] = member
        left.append(LeftMember(*leaving, error_code))
    if gone:
        group = _go_on_without(group, gone.values(), deciding)
    elif any(member.error_code == NONE for member in left):
        # Only ids that no one had joined with: there is less to wait for, and that is all.
        group = complete_if_ready(group, deciding)
    deciding.answer(ticket, LeaveReply(NONE, tuple(left)))
    return group


def _leaving_member(
    group: Membership,
    leaving: MemberIdentity,
    gone: Collection[MemberId],
    deciding: Deciding,
) -> Member | None:
    """Who goes, or a refusal; None for an id that nobody had joined with, which goes at once."""
    member_id, instance_id = leaving
    if deciding.expects(group, member_id):
        deciding.end_session(member_id)
        return None
    if member_id == NO_MEMBER_ID and instance_id is not None:
        # An administrator removes a static member without knowing its current id.
        member_id = group.instances.get(instance_id, NO_MEMBER_ID)
    if member_id in gone or (instance_id and group.instances.get(instance_id) in gone):
        raise UnknownMemberId(f"{member_id!r} of {instance_id!r} is named twice")
    return group.member(member_id, instance_id)


def forget_ids(group: Membership, command: ForgetIds, deciding: Deciding) -> Membership:
    for member_id in command.member_ids:
        if deciding.expects(group, member_id):
            deciding.end_session(member_id)
    return complete_if_ready(group, deciding)


def abandon(group: Membership, ticket: Ticket, deciding: Deciding) -> Membership:
    """The connection that waits for this reply is gone."""
    member = group.waiting_with(ticket)
    if member is None:
        return group
    if member.awaits is Awaited.SYNC:
        deciding.renew_session(member)
        return group.with_members([member.answered()])
    group = group.with_members([member.waiting(member.awaits, None)])
    if member.is_new and member.group_instance_id is None:
        # It owns nothing yet. If its client lives, it joins again and is as new as before;
        # if not, the others would wait for it, or share their partitions with no one.
        gone = group.members[member.member_id]
        return _go_on_without(group, [gone], deciding)
    return group


def expire(group: Membership, overdue: frozenset[MemberId], deciding: Deciding) -> Membership:
    """Go on without those who did not come, join, sync or show life in time.

    Of those whose session is overdue, members that wait for us may stay.
    """
    for member_id in overdue - group.members.keys():
        deciding.end_session(member_id)
    sync_is_over = group.sync_deadline_ms is not None and group.sync_deadline_ms <= deciding.now_ms
    if overdue or sync_is_over:
        gone = [
            member
            for member in group.members.values()
            if (member.member_id in overdue and member.can_expire)
            or (sync_is_over and not member.has_synced)
        ]
        if gone:
            return _go_on_without(group, gone, deciding)
    return complete_if_ready(group, deciding)


def _go_on_without(group: Membership, gone: Collection[Member], deciding: Deciding) -> Membership:
    for member in gone:
        _dismiss_for_good(member, deciding)
    group = group.without([member.member_id for member in gone])
    assert group.state is not State.EMPTY, f"{group.group_id} was empty with members"
    return complete_if_ready(begin(group, deciding), deciding)


def _dismiss_for_good(member: Member, deciding: Deciding) -> None:
    # The reply does not name the member id, so that the client asks for a new one.
    if member.awaits is Awaited.JOIN:
        deciding.answer(member.ticket, JoinReply(UnknownMemberId.code, NO_MEMBER_ID))
    else:
        dismissed(member, UnknownMemberId.code, deciding)
    deciding.end_session(member.member_id)

"""How a group gets from one generation to the next.

    begin               every member is to send JoinGroup again
    complete_if_ready   when all have, or the time is up: the next generation, with a leader, a
                        protocol and a reply to each who joined
    sync                the leader's assignment makes the generation lasting and the group stable

A group that starts empty waits a little for more members, so that a fleet of consumers that
starts together meets one rebalance and not one each.
"""

from msgspec.structs import replace

from semel.errors import (
    NONE,
    InconsistentGroupProtocol,
    RebalanceInProgress,
)
from semel.groups.commands import (
    NO_MEMBER_ID,
    JoinReply,
    Sync,
    SyncReply,
    Ticket,
)
from semel.groups.deciding import Deciding
from semel.groups.members import Awaited, Member, elected_protocol
from semel.groups.membership import Membership, State
from semel.types import MemberId


def dismissed(member: Member, error_code: int, deciding: Deciding) -> Member:
    """Answer what the member waits for with an error."""
    if member.awaits is Awaited.JOIN:
        deciding.answer(member.ticket, JoinReply(error_code, member.member_id))
    elif member.awaits is Awaited.SYNC:
        deciding.answer(member.ticket, SyncReply(error_code))
        deciding.renew_session(member)
    return member.answered()


def await_reply(
    group: Membership, member_id: MemberId, awaited: Awaited, ticket: Ticket, deciding: Deciding
) -> Membership:
    # A client that asks again has given up on its earlier request; should it still read that
    # reply, it is told to join again, which the newer request already does.
    member = dismissed(group.members[member_id], RebalanceInProgress.code, deciding)
    return group.with_members([member.waiting(awaited, ticket)])


def begin(group: Membership, deciding: Deciding) -> Membership:
    if group.state is State.PREPARING_REBALANCE:
        return group
    if group.state is State.COMPLETING_REBALANCE:
        group = group.with_members(
            dismissed(member, RebalanceInProgress.code, deciding)
            for member in group.members.values()
        )
    timeout_ms = group.rebalance_timeout_ms
    is_initial = group.state is State.EMPTY
    delay_ms = deciding.settings.initial_rebalance_delay_ms if is_initial else timeout_ms
    return replace(
        group.moved_to(State.PREPARING_REBALANCE),
        join_deadline_ms=deciding.now_ms + delay_ms,
        sync_deadline_ms=None,
        is_initial=is_initial,
        delay_left_ms=max(timeout_ms - delay_ms, 0),
        newcomer_arrived=False,
    )


def complete_if_ready(group: Membership, deciding: Deciding) -> Membership:
    """End the joining phase if there is no one left to wait for, or no time."""
    if group.state is not State.PREPARING_REBALANCE:
        return group
    assert group.join_deadline_ms is not None
    if deciding.now_ms >= group.join_deadline_ms:
        may_wait = group.is_initial and group.newcomer_arrived and group.delay_left_ms
        if not may_wait or not group.members:
            return _completed(group, deciding)
        delay_ms = min(deciding.settings.initial_rebalance_delay_ms, group.delay_left_ms)
        return replace(
            group,
            newcomer_arrived=False,
            delay_left_ms=group.delay_left_ms - delay_ms,
            join_deadline_ms=deciding.now_ms + delay_ms,
        )
    is_waiting_for_more = group.is_initial and group.members
    if is_waiting_for_more or deciding.expects_more(group) or not group.all_members_have_joined:
        return group
    return _completed(group, deciding)


def _completed(group: Membership, deciding: Deciding) -> Membership:
    # A static member keeps its place: it is expected back before its session ends.
    missing = [
        member.member_id
        for member in group.members.values()
        if member.awaits is not Awaited.JOIN and member.group_instance_id is None
    ]
    for member_id in missing:
        deciding.end_session(member_id)
    group = replace(group.without(missing), is_initial=False)
    if not group.members:
        return _emptied(group, deciding)
    leader = _elected_leader(group)
    timeout_ms = group.rebalance_timeout_ms
    if leader is None:
        return replace(group, join_deadline_ms=deciding.now_ms + timeout_ms)
    before = group
    group = replace(
        group.moved_to(State.COMPLETING_REBALANCE),
        generation=group.generation + 1,
        protocol=elected_protocol(group.members.values()),
        leader=leader,
        join_deadline_ms=None,
        sync_deadline_ms=deciding.now_ms + timeout_ms,
    )
    for member in before.members.values():
        if member.awaits is Awaited.JOIN:
            deciding.answer(member.ticket, generation_reply(group, member.member_id))
        deciding.renew_session(member)
    return group.with_members(
        replace(member.answered(), is_new=False, has_synced=False)
        for member in before.members.values()
    )


def _emptied(group: Membership, deciding: Deciding) -> Membership:
    group = replace(
        group.moved_to(State.EMPTY),
        generation=group.generation + 1,
        protocol=None,
        leader=None,
        join_deadline_ms=None,
    )
    deciding.write(group.recorded(deciding.wall_ms))
    return group


def _elected_leader(group: Membership) -> MemberId | None:
    """One that has joined, since it is asked for the assignment; the present one if it can be."""
    joined = [each.member_id for each in group.members.values() if each.awaits is Awaited.JOIN]
    if group.leader in joined:
        return group.leader
    return joined[0] if joined else None


def generation_reply(group: Membership, member_id: MemberId) -> JoinReply:
    """The current generation, with the members if this one leads it."""
    members = group.members.values() if group.leader == member_id else ()
    return JoinReply(
        NONE,
        member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or NO_MEMBER_ID,
        members=tuple(member.joined(group.protocol) for member in members),
    )


def sync(group: Membership, command: Sync, ticket: Ticket, deciding: Deciding) -> Membership:
    member = group.member(command.member_id, command.group_instance_id)
    group.check_generation(command.generation)
    if command.protocol_type not in (None, group.protocol_type):
        raise InconsistentGroupProtocol(f"{command.protocol_type} is not {group.protocol_type}")
    if command.protocol_name not in (None, group.protocol):
        raise InconsistentGroupProtocol(f"{command.protocol_name} is not {group.protocol}")
    if group.state is State.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"{group.group_id} is preparing a rebalance")
    group = await_reply(group, member.member_id, Awaited.SYNC, ticket, deciding)
    group = group.with_members([replace(group.members[member.member_id], has_synced=True)])
    if all(each.has_synced for each in group.members.values()):
        group = replace(group, sync_deadline_ms=None)
    if group.state is State.COMPLETING_REBALANCE:
        if group.leader != member.member_id:
            return group
        group = _assigned(group, command)
        deciding.write(group.recorded(deciding.wall_ms))
    waiting = [each for each in group.members.values() if each.awaits is Awaited.SYNC]
    for each in waiting:
        reply = SyncReply(NONE, group.protocol_type, group.protocol, each.assignment)
        deciding.answer(each.ticket, reply)
        deciding.renew_session(each)
    return group.with_members(each.answered() for each in waiting)


def _assigned(group: Membership, command: Sync) -> Membership:
    assignments = dict(command.assignments)
    return group.moved_to(State.STABLE).with_members(
        replace(member, assignment=assignments.get(member.member_id, b""))
        for member in group.members.values()
    )

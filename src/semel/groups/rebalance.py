"""How a group gets from one generation to the next.

    begin      every member is to send JoinGroup again
    settle     when all have, or the time is up: complete
    complete   the next generation: a leader, a protocol, a reply to each who joined
    sync       the leader's assignment makes the generation lasting and the group stable

A group that starts empty waits a little for more members, so that a fleet of consumers that
starts together meets one rebalance and not one each.
"""

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
from semel.groups.group import Group
from semel.groups.members import Awaited, Member, elected_protocol
from semel.groups.states import State
from semel.groups.turn import Turn
from semel.types import MemberId


def dismiss(member: Member, error_code: int, turn: Turn) -> None:
    """Answer what the member waits for with an error."""
    if member.awaits is Awaited.JOIN:
        turn.answer(member.ticket, JoinReply(error_code, member.member_id))
    elif member.awaits is Awaited.SYNC:
        turn.answer(member.ticket, SyncReply(error_code))
        member.renew(turn.now_ms)
    member.awaits = Awaited.NOTHING
    member.ticket = None


def await_reply(member: Member, awaited: Awaited, ticket: Ticket, turn: Turn) -> None:
    # A client that asks again has given up on its earlier request; should it still read that
    # reply, it is told to join again, which the newer request already does.
    dismiss(member, RebalanceInProgress.code, turn)
    member.awaits = awaited
    member.ticket = ticket


def begin(group: Group, turn: Turn) -> None:
    if group.state is State.PREPARING_REBALANCE:
        return
    if group.state is State.COMPLETING_REBALANCE:
        for member in group.members.values():
            dismiss(member, RebalanceInProgress.code, turn)
    group.unsynced.clear()
    group.sync_deadline_ms = None
    group.is_initial = group.state is State.EMPTY
    group.newcomer_arrived = False
    if group.is_initial:
        delay_ms = turn.settings.initial_rebalance_delay_ms
        group.join_deadline_ms = turn.now_ms + delay_ms
        group.delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    else:
        group.join_deadline_ms = turn.now_ms + group.rebalance_timeout_ms
    group.move_to(State.PREPARING_REBALANCE)


def settle(group: Group, turn: Turn) -> None:
    """Complete the joining phase if there is no one left to wait for, or no time."""
    if group.state is not State.PREPARING_REBALANCE:
        return
    assert group.join_deadline_ms is not None
    if turn.now_ms >= group.join_deadline_ms:
        may_wait = group.is_initial and group.newcomer_arrived and group.delay_left_ms
        if may_wait and group.members:
            delay_ms = min(turn.settings.initial_rebalance_delay_ms, group.delay_left_ms)
            group.newcomer_arrived = False
            group.delay_left_ms -= delay_ms
            group.join_deadline_ms = turn.now_ms + delay_ms
        else:
            _complete(group, turn)
    elif group.all_have_joined and not (group.is_initial and group.members):
        _complete(group, turn)


def _complete(group: Group, turn: Turn) -> None:
    group.is_initial = False
    # A static member keeps its place: it is expected back before its session ends.
    for member in list(group.members.values()):
        if member.awaits is not Awaited.JOIN and member.group_instance_id is None:
            group.discard(member)
    if group.members and not _elect_leader(group):
        group.join_deadline_ms = turn.now_ms + group.rebalance_timeout_ms
        return
    group.join_deadline_ms = None
    group.generation += 1
    if not group.members:
        group.protocol = None
        group.leader = None
        group.move_to(State.EMPTY)
        turn.write(group.record(turn.wall_ms))
        return
    group.protocol = elected_protocol(group.members.values())
    group.move_to(State.COMPLETING_REBALANCE)
    group.unsynced = set(group.members)
    group.sync_deadline_ms = turn.now_ms + group.rebalance_timeout_ms
    for member in group.members.values():
        if member.awaits is Awaited.JOIN:
            turn.answer(member.ticket, generation_reply(group, member.member_id))
        member.awaits = Awaited.NOTHING
        member.ticket = None
        member.is_new = False
        member.renew(turn.now_ms)


def _elect_leader(group: Group) -> bool:
    """The leader must be one that has joined: it is asked for the assignment."""
    joined = [m.member_id for m in group.members.values() if m.awaits is Awaited.JOIN]
    if group.leader not in joined:
        if not joined:
            return False
        group.leader = joined[0]
    return True


def generation_reply(group: Group, member_id: MemberId) -> JoinReply:
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


def sync(group: Group, command: Sync, ticket: Ticket, turn: Turn) -> None:
    member = group.member(command.member_id, command.group_instance_id)
    group.check_generation(command.generation)
    if command.protocol_type not in (None, group.protocol_type):
        raise InconsistentGroupProtocol(f"{command.protocol_type} is not {group.protocol_type}")
    if command.protocol_name not in (None, group.protocol):
        raise InconsistentGroupProtocol(f"{command.protocol_name} is not {group.protocol}")
    if group.state is State.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"{group.group_id} is preparing a rebalance")
    group.unsynced.discard(member.member_id)
    if not group.unsynced:
        group.sync_deadline_ms = None
    await_reply(member, Awaited.SYNC, ticket, turn)
    if group.state is State.COMPLETING_REBALANCE:
        if group.leader != member.member_id:
            return
        assignments = dict(command.assignments)
        for assigned in group.members.values():
            assigned.assignment = assignments.get(assigned.member_id, b"")
        group.move_to(State.STABLE)
        turn.write(group.record(turn.wall_ms))
    for waiting in group.members.values():
        if waiting.awaits is Awaited.SYNC:
            turn.answer(
                waiting.ticket,
                SyncReply(NONE, group.protocol_type, group.protocol, waiting.assignment),
            )
            waiting.awaits = Awaited.NOTHING
            waiting.ticket = None
            waiting.renew(turn.now_ms)

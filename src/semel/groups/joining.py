"""JoinGroup: who may join, as whom, and whether that moves the group.

id      instance   in the group as
none    none       a new member; from version 4 on it is first told its id (KIP-394)
none    known      the static member come back: its new id takes the old one's place (KIP-345)
none    unknown    a new static member
given   any        itself, or a refusal
"""

from semel.errors import (
    NONE,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    UnknownMemberId,
)
from semel.groups.commands import NO_MEMBER_ID, Join, JoinReply, Ticket
from semel.groups.group import Group
from semel.groups.members import Awaited, Member, elected_protocol, new_member_id
from semel.groups.rebalance import await_reply, begin, dismiss, generation_reply, settle
from semel.groups.settings import INSTANCE_ID_SIZE_MAX, STRING_BYTES_MAX, GroupSettings
from semel.groups.states import State
from semel.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from semel.groups.turn import Turn
from semel.types import MemberId
from semel.world import Randomness


def check(command: Join, settings: GroupSettings) -> None:
    """What can be refused without knowing the group."""
    if not (
        settings.session_timeout_ms_min
        <= command.session_timeout_ms
        <= settings.session_timeout_ms_max
    ):
        raise InvalidSessionTimeout(
            f"{command.session_timeout_ms} ms is not within "
            f"{settings.session_timeout_ms_min} to {settings.session_timeout_ms_max} ms"
        )
    if len(command.group_instance_id or "") > INSTANCE_ID_SIZE_MAX:
        raise InvalidRequest(f"group.instance.id is longer than {INSTANCE_ID_SIZE_MAX}")
    names = [command.protocol_type, *(protocol.name for protocol in command.protocols)]
    if any(len(name.encode()) > STRING_BYTES_MAX for name in names):
        raise InconsistentGroupProtocol("a protocol's name is too long to be stored")


def join(group: Group, command: Join, ticket: Ticket, turn: Turn, randomness: Randomness) -> None:
    _check_room(group, command, turn.settings)
    names = frozenset(protocol.name for protocol in command.protocols)
    if not group.speaks(command.protocol_type, names):
        raise InconsistentGroupProtocol(
            f"{group.group_id}: {command.protocol_type} {sorted(names)} shares no protocol with all"
        )
    if command.member_id != NO_MEMBER_ID:
        _join_known(group, command, ticket, turn)
    else:
        member_id = new_member_id(command.client_id, command.group_instance_id, randomness)
        _join_unknown(group, member_id, command, ticket, turn)
    settle(group, turn)


def _check_room(group: Group, command: Join, settings: GroupSettings) -> None:
    known = group.members.get(command.member_id)
    if group.state is State.EMPTY:
        return
    if group.state is State.PREPARING_REBALANCE:
        # Counting those who have joined sheds the last to rejoin when the limit was lowered.
        counted = sum(member.awaits is Awaited.JOIN for member in group.members.values())
        accepted = known is not None and known.awaits is Awaited.JOIN
    else:
        counted = len(group.members)
        accepted = known is not None or command.group_instance_id in group.instances
    if not accepted and counted >= settings.member_count_max:
        raise GroupMaxSizeReached(f"{group.group_id} has {counted} members")


def _join_unknown(
    group: Group, member_id: MemberId, command: Join, ticket: Ticket, turn: Turn
) -> None:
    instance_id = command.group_instance_id
    if instance_id is not None and instance_id in group.instances:
        _replace_static(group, member_id, command, ticket, turn)
    elif instance_id is None and command.returns_with_member_id:
        group.expect(member_id, turn.now_ms + command.session_timeout_ms)
        turn.answer(ticket, JoinReply(MemberIdRequired.code, member_id))
    else:
        _add(group, member_id, command, ticket, turn)


def _add(group: Group, member_id: MemberId, command: Join, ticket: Ticket, turn: Turn) -> None:
    if not group.members:
        group.protocol_type = command.protocol_type
    member = Member.joining(
        command, member_id, turn.now_ms + turn.settings.new_member_join_timeout_ms
    )
    group.add(member)
    if group.state is State.PREPARING_REBALANCE:
        group.newcomer_arrived = True
    begin(group, turn)
    await_reply(member, Awaited.JOIN, ticket, turn)


def _join_known(group: Group, command: Join, ticket: Ticket, turn: Turn) -> None:
    if command.member_id in group.pending_members:
        if command.group_instance_id is not None:
            raise UnknownMemberId(f"{command.member_id} was not given to a static member")
        group.expects_no_more(command.member_id)
        _add(group, command.member_id, command, ticket, turn)
        return
    member = group.member(command.member_id, command.group_instance_id)
    unchanged = member.protocols == command.protocols
    leads = group.leader == member.member_id
    # The same request again is most likely a retry whose reply was lost. A leader of a stable
    # group is the exception: it joins to make a new assignment, for instance for new partitions.
    if unchanged and (
        group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and not leads)
    ):
        member.renew(turn.now_ms)
        turn.answer(ticket, generation_reply(group, member.member_id))
        return
    _rejoin(group, member, command, ticket, turn)


def _rejoin(group: Group, member: Member, command: Join, ticket: Ticket, turn: Turn) -> None:
    member.adopt(command)
    begin(group, turn)
    await_reply(member, Awaited.JOIN, ticket, turn)


def _replace_static(
    group: Group, member_id: MemberId, command: Join, ticket: Ticket, turn: Turn
) -> None:
    assert command.group_instance_id is not None
    member = group.members[group.instances[command.group_instance_id]]
    old_leader = group.leader
    changed = _subscribes_anew(group, member, command)
    dismiss(member, FencedInstanceId.code, turn)
    group.rename(member, member_id)
    if group.state is not State.STABLE or changed:
        # While the leader computes an assignment it knows the old id alone, and the new one
        # would get nothing.
        _rejoin(group, member, command, ticket, turn)
        return
    member.adopt(command)
    if elected_protocol(group.members.values()) != group.protocol:
        _rejoin(group, member, command, ticket, turn)
        return
    member.renew(turn.now_ms)
    turn.write(group.record(turn.wall_ms))
    if command.can_skip_assignment:
        reply = generation_reply(group, member_id)
        reply = reply._replace(skip_assignment=group.leader == member_id)
    else:
        # Named by its old id, a returning leader does not take itself for one: no one would
        # distribute its assignment in a stable group.
        reply = JoinReply(
            NONE,
            member_id,
            group.generation,
            group.protocol_type,
            group.protocol,
            old_leader or NO_MEMBER_ID,
        )
    turn.answer(ticket, reply)


def _subscribes_anew(group: Group, member: Member, command: Join) -> bool:
    """A consumer came back with other topics, which the standing assignment cannot know.

    Topics are compared, not bytes: these also tell what the consumer owned when it last joined.
    """
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    before = subscribed_topics(member.metadata_for(group.protocol))
    return any(
        protocol.name == group.protocol and subscribed_topics(protocol.metadata) != before
        for protocol in command.protocols
    )

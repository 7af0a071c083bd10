"""JoinGroup: who may join, as whom, and whether that moves the group.

id      instance   in the group as
none    none       a new member; from version 4 on it is first told its id (KIP-394)
none    known      the static member come back: its new id takes the old one's place (KIP-345)
none    unknown    a new static member
given   any        itself, or a refusal
"""

from msgspec.structs import replace

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
from semel.groups.deciding import Deciding
from semel.groups.members import (
    CONSUMER_PROTOCOL_TYPE,
    Awaited,
    Member,
    elected_protocol,
    new_member_id,
    subscribed_topics,
)
from semel.groups.membership import Membership, State
from semel.groups.rebalance import (
    await_reply,
    begin,
    complete_if_ready,
    dismissed,
    generation_reply,
)
from semel.groups.records import NO_TIMESTAMP, GenerationRecorded
from semel.groups.settings import INSTANCE_ID_SIZE_MAX, STRING_BYTES_MAX, GroupSettings
from semel.types import MemberId


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


def generation_of_one(command: Join) -> GenerationRecorded:
    """What is recorded at least, if this member is to be given anything."""
    member = Member.joining(command, command.member_id)
    group = Membership(
        command.group_id,
        protocol_type=command.protocol_type,
        protocol=command.protocols[0].name,
        leader=command.member_id,
    )
    return group.with_members([member]).recorded(NO_TIMESTAMP)


def join(group: Membership, command: Join, ticket: Ticket, deciding: Deciding) -> Membership:
    _check_room(group, command, deciding.settings)
    names = frozenset(protocol.name for protocol in command.protocols)
    if not group.speaks(command.protocol_type, names):
        raise InconsistentGroupProtocol(
            f"{group.group_id}: {command.protocol_type} {sorted(names)} shares no protocol with all"
        )
    if command.member_id != NO_MEMBER_ID:
        group = _join_known(group, command, ticket, deciding)
    else:
        member_id = new_member_id(command.client_id, command.group_instance_id, command.token)
        group = _join_unknown(group, member_id, command, ticket, deciding)
    return complete_if_ready(group, deciding)


def _check_room(group: Membership, command: Join, settings: GroupSettings) -> None:
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
    group: Membership, member_id: MemberId, command: Join, ticket: Ticket, deciding: Deciding
) -> Membership:
    instance_id = command.group_instance_id
    if instance_id is not None and instance_id in group.instances:
        return _replace_static(group, member_id, command, ticket, deciding)
    if instance_id is None and command.returns_with_member_id:
        deciding.begin_session(member_id, deciding.now_ms + command.session_timeout_ms)
        deciding.answer(ticket, JoinReply(MemberIdRequired.code, member_id))
        return group
    return _add(group, member_id, command, ticket, deciding)


def _add(
    group: Membership, member_id: MemberId, command: Join, ticket: Ticket, deciding: Deciding
) -> Membership:
    if not group.members:
        group = replace(group, protocol_type=command.protocol_type)
    group = group.with_members([Member.joining(command, member_id)])
    timeout_ms = deciding.settings.new_member_join_timeout_ms
    deciding.begin_session(member_id, deciding.now_ms + timeout_ms)
    if group.state is State.PREPARING_REBALANCE:
        group = replace(group, newcomer_arrived=True)
    group = begin(group, deciding)
    return await_reply(group, member_id, Awaited.JOIN, ticket, deciding)


def _join_known(group: Membership, command: Join, ticket: Ticket, deciding: Deciding) -> Membership:
    if deciding.expects(group, command.member_id):
        if command.group_instance_id is not None:
            raise UnknownMemberId(f"{command.member_id} was not given to a static member")
        return _add(group, command.member_id, command, ticket, deciding)
    member = group.member(command.member_id, command.group_instance_id)
    unchanged = member.protocols == command.protocols
    leads = group.leader == member.member_id
    # The same request again is most likely a retry whose reply was lost. A leader of a stable
    # group is the exception: it joins to make a new assignment, for instance for new partitions.
    if unchanged and (
        group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and not leads)
    ):
        deciding.renew_session(member)
        deciding.answer(ticket, generation_reply(group, member.member_id))
        return group
    return _rejoin(group, member, command, ticket, deciding)


def _rejoin(
    group: Membership, member: Member, command: Join, ticket: Ticket, deciding: Deciding
) -> Membership:
    group = begin(group.with_members([member.rejoining(command)]), deciding)
    return await_reply(group, member.member_id, Awaited.JOIN, ticket, deciding)


def _replace_static(
    group: Membership, member_id: MemberId, command: Join, ticket: Ticket, deciding: Deciding
) -> Membership:
    assert command.group_instance_id is not None
    old_id = group.instances[command.group_instance_id]
    old_leader = group.leader
    changed = _subscribes_anew(group, group.members[old_id], command)
    group = group.with_members(
        [dismissed(group.members[old_id], FencedInstanceId.code, deciding)]
    ).with_renamed(old_id, member_id)
    deciding.rename_session(old_id, member_id)
    member = group.members[member_id]
    if group.state is not State.STABLE or changed:
        # While the leader computes an assignment it knows the old id alone, and the new one
        # would get nothing.
        return _rejoin(group, member, command, ticket, deciding)
    member = member.rejoining(command)
    group = group.with_members([member])
    if elected_protocol(group.members.values()) != group.protocol:
        return _rejoin(group, member, command, ticket, deciding)
    deciding.renew_session(member)
    deciding.write(group.recorded(deciding.wall_ms))
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
    deciding.answer(ticket, reply)
    return group


def _subscribes_anew(group: Membership, member: Member, command: Join) -> bool:
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

"""JoinGroup (api key 11), versions 0-9.

v1  rebalance timeout; v4  a new member is told its id first; v5  static members
v6  flexible encoding; v9  a returning leader may skip the assignment

The answer waits until the group has agreed on a new generation.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.errors import GroupAuthorizationFailed, NotCoordinator, RequestError
from semel.groups.commands import Join, JoinReply, Protocol
from semel.lane.waiting_room import Replied
from semel.types import GroupId, MemberId
from semel.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from semel.wire.rights import READ_GROUP

if TYPE_CHECKING:
    from semel.broker.broker import Broker


NOBODY: Final = MemberId("")


def join_group(broker: "Broker", request: JoinGroupRequest, call: Call) -> Handled:
    command = Join(
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        group_instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=call.peer.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if call.version >= 1 else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(each.name, each.metadata) for each in request.protocols),
        returns_with_member_id=call.version >= 4,
        can_skip_assignment=call.version >= 9,
    )
    if not call.may(READ_GROUP, request.group_id):
        return _refusal(call)
    try:
        replied = broker.coordinators.of_group(request.group_id).waiting_room.join(
            command, call.peer.number
        )
    except RequestError as error:
        return Answer(_response(JoinReply(error.code, command.member_id), call))
    if isinstance(replied, Replied):
        return Answer(_response(replied.reply, call), [replied.mark])
    return _wait(replied, command, call)


def _refusal(call: Call) -> Answer:
    return Answer(_response(JoinReply(GroupAuthorizationFailed.code, NOBODY), call))


async def _wait(future: "asyncio.Future[Replied]", command: Join, call: Call) -> Answer:
    member_id = command.member_id
    try:
        replied = await future
    except NotCoordinator as error:
        # The lane is led elsewhere now, which is true whatever becomes of its journal.
        return Answer(_response(JoinReply(error.code, member_id), call), NO_MARKS)
    except RequestError as error:
        return Answer(_response(JoinReply(error.code, member_id), call))
    # It may have been taken from the client meanwhile, who would hear of all members.
    if not call.may(READ_GROUP, command.group_id):
        return _refusal(call)
    return Answer(_response(replied.reply, call), [replied.mark])


def _response(reply: JoinReply, call: Call) -> JoinGroupResponse:
    # Before v7 a refusal has no protocol to name, and null cannot be said.
    protocol_name = reply.protocol_name if call.version >= 7 else reply.protocol_name or ""
    return JoinGroupResponse(
        error_code=reply.error_code,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=protocol_name,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(member.member_id, member.group_instance_id, member.metadata)
            for member in reply.members
        ],
    )

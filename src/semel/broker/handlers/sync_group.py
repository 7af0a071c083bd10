"""SyncGroup (api key 14), versions 0-5.

v3  static members; v4  flexible encoding; v5  the protocol is named and compared

The answer waits until the leader has sent the assignment of the generation, and leaves when that
is durable.
"""

import asyncio
from typing import TYPE_CHECKING

from semel.broker.answer import NO_MARKS, Answer, Call, Handled
from semel.errors import GroupAuthorizationFailed, NotCoordinator, RequestError
from semel.groups.commands import Sync, SyncReply
from semel.lane.waiting_room import Replied
from semel.types import GroupId, MemberId
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from semel.wire.rights import READ_GROUP

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def sync_group(broker: "Broker", request: SyncGroupRequest, call: Call) -> Handled:
    command = Sync(
        group_id=GroupId(request.group_id),
        generation=request.generation_id,
        member_id=MemberId(request.member_id),
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple(
            (MemberId(each.member_id), each.assignment) for each in request.assignments
        ),
    )
    if not call.may(READ_GROUP, request.group_id):
        return _refusal()
    try:
        replied = broker.coordinators.of_group(request.group_id).waiting_room.ask(command)
    except RequestError as error:
        return Answer(_response(SyncReply(error.code)))
    if isinstance(replied, Replied):
        return Answer(_response(replied.reply), [replied.mark])
    return _wait(replied, command, call)


def _refusal() -> Answer:
    return Answer(_response(SyncReply(GroupAuthorizationFailed.code)))


async def _wait(future: "asyncio.Future[Replied]", command: Sync, call: Call) -> Answer:
    try:
        replied = await future
    except NotCoordinator as error:
        # The lane is led elsewhere now, which is true whatever becomes of its journal.
        return Answer(_response(SyncReply(error.code)), NO_MARKS)
    except RequestError as error:
        return Answer(_response(SyncReply(error.code)))
    # It may have been taken from the client meanwhile.
    if not call.may(READ_GROUP, command.group_id):
        return _refusal()
    return Answer(_response(replied.reply), [replied.mark])


def _response(reply: SyncReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error_code,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )

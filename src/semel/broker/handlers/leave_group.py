"""LeaveGroup (api key 13), versions 0-5.

v3  several members at once, also by instance id; v4  flexible encoding; v5  a reason
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError
from semel.groups.commands import Leave, LeaveReply, MemberIdentity
from semel.types import GroupId, MemberId
from semel.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from semel.wire.rights import READ_GROUP

if TYPE_CHECKING:
    from semel.broker.broker import Broker

SEVERAL_SINCE = 3


def leave_group(broker: "Broker", request: LeaveGroupRequest, call: Call) -> Answer:
    if call.version >= SEVERAL_SINCE:
        members = tuple(
            MemberIdentity(MemberId(member.member_id), member.group_instance_id)
            for member in request.members
        )
    else:
        members = (MemberIdentity(MemberId(request.member_id), None),)
    try:
        call.require(READ_GROUP, request.group_id)
        reply = broker.coordinators.of_group(request.group_id).waiting_room.ask_for(
            Leave(GroupId(request.group_id), members), LeaveReply
        )
    except RequestError as error:
        return Answer(LeaveGroupResponse(error_code=error.code))
    error_code = reply.error_code
    if call.version < SEVERAL_SINCE and reply.members:
        error_code = error_code or reply.members[0].error_code
    return Answer(
        LeaveGroupResponse(
            error_code=error_code,
            members=[
                MemberResponse(member.member_id, member.group_instance_id, member.error_code)
                for member in reply.members
            ],
        )
    )

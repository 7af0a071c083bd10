"""Heartbeat (api key 12), versions 0-4.

v3  static members; v4  flexible encoding
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError
from semel.groups.commands import Heartbeat, HeartbeatReply
from semel.types import GroupId, MemberId
from semel.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.wire.rights import READ_GROUP

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def heartbeat(broker: "Broker", request: HeartbeatRequest, call: Call) -> Answer:
    command = Heartbeat(
        GroupId(request.group_id),
        request.generation_id,
        MemberId(request.member_id),
        request.group_instance_id,
    )
    try:
        call.require(READ_GROUP, request.group_id)
        reply = broker.coordinators.of_group(request.group_id).waiting_room.ask_for(
            command, HeartbeatReply
        )
    except RequestError as error:
        return Answer(HeartbeatResponse(error_code=error.code))
    return Answer(HeartbeatResponse(error_code=reply.error_code))

"""DeleteGroups (api key 42), versions 0-2.

v2  flexible encoding
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError
from semel.groups.commands import DeleteGroups, DeleteGroupsReply
from semel.types import GroupId
from semel.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def delete_groups(broker: "Broker", request: DeleteGroupsRequest, call: Call) -> Answer:
    command = DeleteGroups(tuple(GroupId(name) for name in request.groups_names))
    try:
        reply, position = broker.waiting_room.ask_for(command, DeleteGroupsReply)
    except RequestError as error:
        refused = [DeletableGroupResult(name, error.code) for name in request.groups_names]
        return Answer(DeleteGroupsResponse(results=refused))
    results = [DeletableGroupResult(group.group_id, group.error_code) for group in reply.groups]
    return Answer(DeleteGroupsResponse(results=results), position)

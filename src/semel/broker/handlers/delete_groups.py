"""DeleteGroups (api key 42), versions 0-3.

v2  flexible encoding
v3  a refusal has a sentence
"""

from collections import defaultdict
from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.errors import RequestError
from semel.groups.commands import DeleteGroups, DeleteGroupsReply
from semel.lane.lane import Lane
from semel.types import GroupId
from semel.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from semel.wire.rights import DELETE_GROUP

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def delete_groups(broker: "Broker", request: DeleteGroupsRequest, call: Call) -> Answer:
    results: list[DeletableGroupResult] = []
    by_lane: defaultdict[Lane, list[GroupId]] = defaultdict(list)
    for name in request.groups_names:
        try:
            call.require(DELETE_GROUP, name)
            by_lane[broker.coordinators.of_group(name)].append(GroupId(name))
        except RequestError as error:
            results.append(DeletableGroupResult(name, error.code, str(error)))
    for lane, group_ids in by_lane.items():
        try:
            reply = lane.waiting_room.ask_for(DeleteGroups(tuple(group_ids)), DeleteGroupsReply)
        except RequestError as error:
            results += [DeletableGroupResult(name, error.code, str(error)) for name in group_ids]
        else:
            results += [
                DeletableGroupResult(each.group_id, each.error_code, each.reason)
                for each in reply.groups
            ]
    return Answer(DeleteGroupsResponse(results=results))

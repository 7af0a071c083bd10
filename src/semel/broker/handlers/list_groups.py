"""ListGroups (api key 16), versions 0-5.

v3  flexible encoding; v4  states are shown and may be asked for; v5  so are types (KIP-848)

Every group here is a classic one.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from semel.broker.answer import Answer, Call
from semel.errors import CoordinatorNotAvailable
from semel.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from semel.wire.rights import DESCRIBE_CLUSTER, DESCRIBE_GROUP

if TYPE_CHECKING:
    from semel.broker.broker import Broker


CLASSIC: Final = "classic"

GROUPS_AT_ONCE: Final = 128
"""Listed before others have their turn."""


async def list_groups(broker: "Broker", request: ListGroupsRequest, call: Call) -> Answer:
    types = {name.lower() for name in request.types_filter}
    if types and CLASSIC not in types:
        return Answer(ListGroupsResponse())
    if not broker.nodes.is_leader_known:
        return Answer(ListGroupsResponse(error_code=CoordinatorNotAvailable.code))
    wanted = {state.lower() for state in request.states_filter}
    groups = []
    for lane in broker.lanes.led:
        for count, group in enumerate(lane.view.groups(), 1):
            if count % GROUPS_AT_ONCE == 0:
                await asyncio.sleep(0)
            # Asked each time: it may have been taken from the client meanwhile.
            is_seen = call.may_see(DESCRIBE_CLUSTER) or call.may_see(DESCRIBE_GROUP, group.group_id)
            if is_seen and (not wanted or group.state.lower() in wanted):
                groups.append(
                    ListedGroup(group.group_id, group.protocol_type, group.state, CLASSIC)
                )
    return Answer(ListGroupsResponse(groups=groups))

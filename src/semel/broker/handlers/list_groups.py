"""ListGroups (api key 16), versions 0-4.

v3  flexible encoding; v4  states are shown and may be asked for
"""

from typing import TYPE_CHECKING

from semel.broker.answer import Answer, Call
from semel.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def list_groups(broker: "Broker", request: ListGroupsRequest, call: Call) -> Answer:
    groups = [
        ListedGroup(group.group_id, group.protocol_type, group.state)
        for lane in broker.led_lanes
        for group in lane.view.groups(request.states_filter)
    ]
    return Answer(ListGroupsResponse(groups=groups))

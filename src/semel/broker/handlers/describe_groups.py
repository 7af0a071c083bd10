"""DescribeGroups (api key 15), versions 0-6.

v3  what a client may do is told; v4  static members; v5  flexible encoding
v6  a group that does not exist is refused, with a message (KIP-1043)
"""

from typing import TYPE_CHECKING

from semel.broker.answer import NOT_ASKED_FOR, Answer, Call
from semel.errors import GroupIdNotFound, RequestError
from semel.types import GroupId
from semel.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from semel.wire.rights import DESCRIBE_GROUP, ResourceType

if TYPE_CHECKING:
    from semel.broker.broker import Broker

UNKNOWN_STATE = "Dead"
"""What Kafka says of a group that does not exist."""
REFUSED_SINCE = 6


def describe_groups(broker: "Broker", request: DescribeGroupsRequest, call: Call) -> Answer:
    with_operations = request.include_authorized_operations
    groups = [_describe(broker, group_id, with_operations, call) for group_id in request.groups]
    return Answer(DescribeGroupsResponse(groups=groups))


def _describe(broker: "Broker", group_id: str, with_operations: bool, call: Call) -> DescribedGroup:
    try:
        call.require(DESCRIBE_GROUP, group_id)
        group = broker.coordinators.of_group(group_id).view.group(GroupId(group_id))
    except RequestError as error:
        return DescribedGroup(error.code, str(error) or None, group_id)
    operations = NOT_ASKED_FOR
    if with_operations:
        operations = call.operations(ResourceType.GROUP, group_id)
    if group is None:
        if call.version < REFUSED_SINCE:
            return DescribedGroup(
                0, None, group_id, UNKNOWN_STATE, authorized_operations=operations
            )
        reason = f"there is no group {group_id!r}"
        return DescribedGroup(GroupIdNotFound.code, reason, group_id, UNKNOWN_STATE)
    return DescribedGroup(
        0,
        None,
        group_id,
        group.state,
        group.protocol_type,
        group.protocol,
        [
            DescribedGroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.metadata,
                member.assignment,
            )
            for member in group.members
        ],
        operations,
    )

"""DescribeAcls (api key 29), versions 1-3: the rules of the access list.

v1  patterns of names; v2  flexible encoding; v3  resources of a kind of their own for users
"""

import asyncio
from typing import TYPE_CHECKING, Final

from semel.access.rules import PatternType, Rule, RuleFilter
from semel.broker.answer import Answer, Call
from semel.broker.changing_rules import IS_OFF
from semel.errors import RequestError, SecurityDisabled
from semel.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from semel.wire.rights import DESCRIBE_CLUSTER, ResourceType

if TYPE_CHECKING:
    from semel.broker.broker import Broker


_Resource = tuple[ResourceType, str, PatternType]

RULES_AT_ONCE: Final = 512
"""Looked at before others have their turn."""


async def describe_acls(broker: "Broker", request: DescribeAclsRequest, call: Call) -> Answer:
    wanted = RuleFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    try:
        call.require(DESCRIBE_CLUSTER)
        if not broker.access.is_on:
            raise SecurityDisabled(IS_OFF)
        wanted.check()
        found: dict[_Resource, list[AclDescription]] = {}
        for count, rule in enumerate(tuple(broker.access.access_list()), 1):
            if count % RULES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if wanted.matches(rule):
                same = found.setdefault((rule.resource_type, rule.name, rule.pattern_type), [])
                same.append(_described(rule))
        # It may have been taken from the client meanwhile.
        call.require(DESCRIBE_CLUSTER)
    except RequestError as error:
        return Answer(DescribeAclsResponse(error_code=error.code, error_message=str(error)))
    resources = [DescribeAclsResource(*resource, rules) for resource, rules in found.items()]
    return Answer(DescribeAclsResponse(resources=resources))


def _described(rule: Rule) -> AclDescription:
    return AclDescription(str(rule.principal), rule.host, rule.operation, rule.permission)

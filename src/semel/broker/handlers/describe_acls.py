"""DescribeAcls (api key 29), versions 1-3: the rules of the access list.

v1  patterns of names; v2  flexible encoding; v3  resources of a kind of their own for users
"""

from itertools import groupby
from typing import TYPE_CHECKING

from semel.access.rules import Rule, RuleFilter
from semel.broker.answer import Answer, Call
from semel.broker.changing_rules import IS_OFF
from semel.errors import RequestError, SecurityDisabled
from semel.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from semel.wire.rights import DESCRIBE_CLUSTER

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def describe_acls(broker: "Broker", request: DescribeAclsRequest, call: Call) -> Answer:
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
    except RequestError as error:
        return Answer(DescribeAclsResponse(error_code=error.code, error_message=str(error)))
    rules = broker.access.access_list().matching(wanted)
    resources = [
        DescribeAclsResource(kind, name, pattern, [_described(rule) for rule in same])
        for (kind, name, pattern), same in groupby(rules, lambda rule: rule[:3])
    ]
    return Answer(DescribeAclsResponse(resources=resources))


def _described(rule: Rule) -> AclDescription:
    return AclDescription(str(rule.principal), rule.host, rule.operation, rule.permission)

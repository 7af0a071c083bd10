"""DeleteAcls (api key 31), versions 1-3: rules of the access list are removed.

v1  patterns of names; v2  flexible encoding; v3  resources of a kind of their own for users

All that match a filter go, and are told. Answered when that is durable and no broker goes by them.
"""

from typing import TYPE_CHECKING

from semel.access.rules import Rule, RuleFilter
from semel.broker.altering import altered
from semel.broker.answer import Answer, Call, Handled
from semel.broker.changing_rules import check, submit_some
from semel.errors import RequestError
from semel.lane.rules import RemoveRules
from semel.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def delete_acls(broker: "Broker", request: DeleteAclsRequest, call: Call) -> Handled:
    return altered(broker, request, call, lambda: _deleted(broker, request, call))


def _deleted(broker: "Broker", request: DeleteAclsRequest, call: Call) -> Answer:
    found: list[list[Rule] | RequestError]
    try:
        check(broker, call, len(request.filters))
    except RequestError as error:
        found = [error] * len(request.filters)
    else:
        found = [_matching(broker, wanted) for wanted in request.filters]
    rules = [rule for each in found if isinstance(each, list) for rule in each]
    refusals = submit_some(broker, call, RemoveRules, dict.fromkeys(rules), "rule removed")
    return Answer(DeleteAclsResponse(filter_results=[_result(each, refusals) for each in found]))


def _matching(broker: "Broker", wanted: DeleteAclsFilter) -> list[Rule] | RequestError:
    rule_filter = RuleFilter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )
    try:
        rule_filter.check()
        return broker.lanes.controller.view.access.access_list.matching(rule_filter)
    except RequestError as error:
        return error


def _result(
    found: list[Rule] | RequestError, refusals: dict[Rule, RequestError]
) -> DeleteAclsFilterResult:
    if isinstance(found, RequestError):
        return DeleteAclsFilterResult(found.code, str(found))
    matching = []
    for rule in found:
        refusal = refusals.get(rule)
        code, reason = (0, None) if refusal is None else (refusal.code, str(refusal))
        matching.append(DeleteAclsMatchingAcl(code, reason, *rule.stored()))
    return DeleteAclsFilterResult(matching_acls=matching)

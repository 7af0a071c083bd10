"""CreateAcls (api key 30), versions 1-3: rules are added to the access list.

v1  patterns of names; v2  flexible encoding; v3  resources of a kind of their own for users

Each is added or refused by itself. Answered when they are durable and all brokers go by them.
"""

from typing import TYPE_CHECKING

from semel.access.rules import Rule, rule_of
from semel.broker.altering import altered
from semel.broker.answer import Answer, Call, Handled
from semel.broker.changing_rules import check, submit_some
from semel.errors import RequestError
from semel.lane.rules import AddRules
from semel.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker


def create_acls(broker: "Broker", request: CreateAclsRequest, call: Call) -> Handled:
    return altered(broker, request, call, lambda: _created(broker, request, call))


def _created(broker: "Broker", request: CreateAclsRequest, call: Call) -> Answer:
    try:
        check(broker, call, len(request.creations))
    except RequestError as error:
        refused = AclCreationResult(error.code, str(error))
        return Answer(CreateAclsResponse(results=[refused] * len(request.creations)))
    made = [_rule(creation) for creation in request.creations]
    rules = [each for each in made if isinstance(each, Rule)]
    refusals = submit_some(broker, call, AddRules, rules, "rule added")
    results = [refusals.get(each) if isinstance(each, Rule) else each for each in made]
    return Answer(
        CreateAclsResponse(
            results=[
                AclCreationResult() if each is None else AclCreationResult(each.code, str(each))
                for each in results
            ]
        )
    )


def _rule(creation: AclCreation) -> Rule | RequestError:
    try:
        return rule_of(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
    except RequestError as error:
        return error

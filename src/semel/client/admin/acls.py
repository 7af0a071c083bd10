"""Rules of the access list: shown, added and removed."""

import enum
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from semel.access.rules import (
    ANY,
    ANY_NUMBER,
    MATCH,
    PatternType,
    Permission,
    Rule,
    RuleFilter,
    rule_of,
)
from semel.client.cluster.calls import raise_for, refusal
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, InvalidRequest, RequestError
from semel.spelling import unknown_name
from semel.wire.messages import create_acls, delete_acls, describe_acls
from semel.wire.rights import CLUSTER_NAME, Operation, ResourceType


class Acl(NamedTuple):
    """Who may do what with which resource, in Kafka's words: `Acl("User:ann", "read", "topic",
    "orders")`. Of the cluster there is one, which needs no name."""

    principal: str
    operation: str
    resource_type: str
    name: str = CLUSTER_NAME
    pattern_type: str = "literal"
    host: str = ANY
    permission: str = "allow"


def rule_of_acl(acl: Acl) -> Rule:
    """Raises ConfigError."""
    try:
        return rule_of(
            _number(ResourceType, acl.resource_type),
            acl.name,
            _number(PatternType, acl.pattern_type),
            acl.principal,
            acl.host,
            _number(Operation, acl.operation),
            _number(Permission, acl.permission),
        )
    except InvalidRequest as error:
        raise ConfigError(str(error)) from error


def acl_of_rule(rule: Rule) -> Acl:
    kind, name, pattern, principal, host, operation, permission = rule
    return Acl(
        str(principal),
        operation.name.lower(),
        kind.name.lower(),
        name,
        pattern.name.lower(),
        host,
        permission.name.lower(),
    )


def filter_of(resource_type: str | None, name: str | None, principal: str | None) -> RuleFilter:
    """Of all rules that apply to these. Raises ConfigError."""
    kind = ANY_NUMBER if resource_type is None else _number(ResourceType, resource_type)
    return RuleFilter(kind, name, ANY_NUMBER if name is None else MATCH, principal)


def _number(kind: type[enum.IntEnum], name: str) -> int:
    known = {each.name.lower(): int(each) for each in kind}
    found = known.get(name.lower().replace("-", "_"))
    if found is None:
        subject = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).lower()
        raise ConfigError(unknown_name(subject, name, known))
    return found


async def describe(cluster: Cluster, wanted: RuleFilter) -> list[Rule]:
    """In the order of what they are about."""
    kind, name, pattern, principal, host, operation, permission = wanted
    request = describe_acls.DescribeAclsRequest(
        kind, name, pattern, principal, host, operation, permission
    )

    async def attempt() -> list[Rule]:
        reply = await cluster.call_any(describe_acls, request)
        raise_for(reply.error_code, _subject(reply.error_message), reply.error_message)
        return sorted(
            Rule.of_stored(
                (
                    resource.resource_type,
                    resource.resource_name,
                    resource.pattern_type,
                    each.principal,
                    each.host,
                    each.operation,
                    each.permission_type,
                )
            )
            for resource in reply.resources
            for each in resource.acls
        )

    return await cluster.retry(attempt)


async def create(cluster: Cluster, rules: Sequence[Rule]) -> dict[Rule, RequestError | None]:
    """Each is added or refused by itself; those that are there already are no others."""
    creations = [create_acls.AclCreation(*rule.stored()) for rule in rules]

    async def attempt() -> dict[Rule, RequestError | None]:
        asked = await cluster.controller_id()
        reply = await cluster.call(asked, create_acls, create_acls.CreateAclsRequest(creations))
        return {
            rule: refusal(result.error_code, str(rule), result.error_message)
            if result.error_code
            else None
            for rule, result in zip(rules, reply.results, strict=True)
        }

    return await cluster.retry(attempt)


def _subject(message: str | None) -> str:
    """What a broker says of its list names it."""
    return "" if message else "access list"


async def delete(cluster: Cluster, wanted: Collection[RuleFilter]) -> list[Rule]:
    """All that match one of these; gives those that are gone. Raises the first refusal."""
    filters = [delete_acls.DeleteAclsFilter(*each) for each in wanted]

    async def attempt() -> list[Rule]:
        asked = await cluster.controller_id()
        reply = await cluster.call(asked, delete_acls, delete_acls.DeleteAclsRequest(filters))
        gone: dict[Rule, None] = {}
        for result in reply.filter_results:
            raise_for(result.error_code, _subject(result.error_message), result.error_message)
            for each in result.matching_acls:
                raise_for(each.error_code, each.resource_name, each.error_message)
                rule = Rule.of_stored(
                    (
                        each.resource_type,
                        each.resource_name,
                        each.pattern_type,
                        each.principal,
                        each.host,
                        each.operation,
                        each.permission_type,
                    )
                )
                gone[rule] = None
        return sorted(gone)

    return await cluster.retry(attempt)

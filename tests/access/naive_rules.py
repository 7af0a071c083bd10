"""What rules allow, decided by looking at each of them: slow, and short enough to be believed."""

from collections.abc import Iterable

from semel.access.principal import Principal
from semel.access.rules import PatternType, Permission, Rule
from semel.wire.rights import Operation, ResourceType

DESCRIBING = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}


def applies(rule: Rule, resource_type: ResourceType, name: str) -> bool:
    if rule.resource_type != resource_type:
        return False
    if rule.pattern_type == PatternType.PREFIXED:
        return name[: len(rule.name)] == rule.name
    return rule.name in ("*", name)


def is_about(rule: Rule, principal: Principal, host: str) -> bool:
    return str(rule.principal) in ("User:*", str(principal)) and rule.host in ("*", host)


def covers(rule: Rule, operation: Operation) -> bool:
    if rule.operation in (Operation.ALL, operation):
        return True
    if rule.permission != Permission.ALLOW:
        return False
    if operation == Operation.DESCRIBE:
        return rule.operation in DESCRIBING
    return operation == Operation.DESCRIBE_CONFIGS and rule.operation == Operation.ALTER_CONFIGS


def may(
    rules: Iterable[Rule],
    principal: Principal,
    host: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
) -> bool:
    found = {
        rule.permission
        for rule in rules
        if applies(rule, resource_type, name)
        and is_about(rule, principal, host)
        and covers(rule, operation)
    }
    return Permission.ALLOW in found and Permission.DENY not in found

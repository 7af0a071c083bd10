"""A rule of the access list: who may do what with which resource, from where; or may not.

Numbers are Kafka's. A filter is a rule with gaps.
"""

import enum
from typing import Final, NamedTuple, Self

from semel.access.principal import Principal
from semel.errors import InvalidRequest
from semel.wire.rights import CLUSTER_NAME, Operation, ResourceType

ANY: Final = "*"
"""Every name of a literal pattern, and every host."""
EVERYBODY: Final = Principal("User", ANY)

TEXT_SIZE_MAX: Final = 1_000
"""Characters of each text of a rule."""


class PatternType(enum.IntEnum):
    LITERAL = 3
    PREFIXED = 4


class Permission(enum.IntEnum):
    DENY = 2
    ALLOW = 3


StoredRule = tuple[int, str, int, str, str, int, int]
"""A rule as it is stored and told: its fields in their order, the principal as text."""


class Rule(NamedTuple):
    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: Principal
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        prefixed = "prefix " if self.pattern_type is PatternType.PREFIXED else ""
        return (
            f"{self.permission.name} {self.principal} from {self.host} {self.operation.name} on "
            f"{self.resource_type.name} {prefixed}{self.name!r}"
        )

    def stored(self) -> StoredRule:
        kind, name, pattern, principal, host, operation, permission = self
        return (
            int(kind),
            name,
            int(pattern),
            str(principal),
            host,
            int(operation),
            int(permission),
        )

    @classmethod
    def of_stored(cls, stored: StoredRule) -> Self:
        """Raises ValueError if there is no such rule."""
        kind, name, pattern, principal, host, operation, permission = stored
        return cls(
            ResourceType(kind),
            name,
            PatternType(pattern),
            Principal.parse(principal),
            host,
            Operation(operation),
            Permission(permission),
        )

    def applies_to(self, resource_type: ResourceType, name: str) -> bool:
        if self.resource_type is not resource_type:
            return False
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY)


def rule_of(
    resource_type: int,
    name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Rule:
    """Of what a client says. Raises InvalidRequest."""
    try:
        rule = Rule.of_stored(
            (resource_type, name, pattern_type, principal, host, operation, permission)
        )
    except ValueError as error:
        raise InvalidRequest(f"no rule can be made of this: {error}") from error
    if not name or not host:
        raise InvalidRequest("a rule names a resource and a host")
    if any(len(text) > TEXT_SIZE_MAX for text in (name, principal, host)):
        raise InvalidRequest(f"a text of a rule has {TEXT_SIZE_MAX} characters at most")
    if rule.resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise InvalidRequest(f"the only resource of type CLUSTER is {CLUSTER_NAME!r}")
    return rule


# What filters have beside the numbers above.

ANY_NUMBER: Final = 1
MATCH: Final = 2
"""As a pattern: every rule that applies to the name."""


class RuleFilter(NamedTuple):
    resource_type: int = ANY_NUMBER
    name: str | None = None
    """None: any."""
    pattern_type: int = ANY_NUMBER
    principal: str | None = None
    host: str | None = None
    operation: int = ANY_NUMBER
    permission: int = ANY_NUMBER

    def check(self) -> None:
        """Raises InvalidRequest if a number has no meaning."""
        numbers = (
            (self.resource_type, {ANY_NUMBER, *ResourceType}, "resource"),
            (self.pattern_type, {ANY_NUMBER, MATCH, *PatternType}, "pattern"),
            (self.operation, {ANY_NUMBER, *Operation}, "operation"),
            (self.permission, {ANY_NUMBER, *Permission}, "permission"),
        )
        for number, known, kind in numbers:
            if number not in known:
                raise InvalidRequest(f"there is no {kind} of type {number}")

    def matches(self, rule: Rule) -> bool:
        return (
            self.resource_type in (ANY_NUMBER, rule.resource_type)
            and self.operation in (ANY_NUMBER, rule.operation)
            and self.permission in (ANY_NUMBER, rule.permission)
            and (self.principal is None or self.principal == str(rule.principal))
            and (self.host is None or self.host == rule.host)
            and self._matches_name(rule)
        )

    def _matches_name(self, rule: Rule) -> bool:
        if self.pattern_type not in (ANY_NUMBER, MATCH, rule.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type == MATCH:
            return rule.applies_to(rule.resource_type, self.name)
        return self.name == rule.name

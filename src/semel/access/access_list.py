"""All rules together, and what they allow: as Kafka decides, and as fast with very many of them.

A rule that denies wins over any that allows. To be allowed to read, write, delete or alter
something is to be allowed to describe it, and who may alter settings may see them; a rule that
denies implies nothing. What no rule allows is denied.

Rules are kept by whom they are about and by the name that they give, so that a decision looks at
a few places, however many rules there are.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from semel.access.origin import written
from semel.access.principal import Principal
from semel.access.rules import ANY, EVERYBODY, PatternType, Permission, Rule, RuleFilter
from semel.wire.rights import Operation, ResourceType, Right

_ALL: Final = sum(1 << operation for operation in Operation)

IMPLIED: Final = {
    Operation.READ: Operation.DESCRIBE,
    Operation.WRITE: Operation.DESCRIBE,
    Operation.DELETE: Operation.DESCRIBE,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
}
"""By a rule that allows the first."""


def _bits(rule: Rule) -> tuple[int, int]:
    """The operations that it allows and those that it denies."""
    operation = rule.operation
    bits = _ALL if operation is Operation.ALL else 1 << operation
    if rule.permission is Permission.DENY:
        return 0, bits
    implied = IMPLIED.get(operation)
    return (bits if implied is None else bits | 1 << implied), 0


class _Place:
    """The rules that give the same name for the same resources, principal and host."""

    __slots__ = ("allowed", "denied", "rules")

    def __init__(self) -> None:
        self.rules: set[Rule] = set()
        self.allowed = 0
        self.denied = 0

    def look(self) -> None:
        self.allowed = self.denied = 0
        for rule in self.rules:
            allowed, denied = _bits(rule)
            self.allowed |= allowed
            self.denied |= denied


class _Patterns:
    """Places by what they give: whether it is a prefix, and the name."""

    __slots__ = ("_chains", "_prefixes", "places")

    def __init__(self) -> None:
        self.places: dict[tuple[bool, str], _Place] = {}
        self._prefixes: list[str] = []
        """In order: what begins a name also begins the last one that is not behind that name."""
        self._chains: dict[str, tuple[str, ...]] = {}
        """Of a prefix that was asked for, since any has changed: those that begin it, and itself,
        by size."""

    def add(self, rule: Rule) -> None:
        is_prefix = rule.pattern_type is PatternType.PREFIXED
        place = self.places.get((is_prefix, rule.name))
        if place is None:
            place = self.places[is_prefix, rule.name] = _Place()
            if is_prefix:
                self._chains.clear()
                insort(self._prefixes, rule.name)
        place.rules.add(rule)
        place.look()

    def remove(self, rule: Rule) -> None:
        is_prefix = rule.pattern_type is PatternType.PREFIXED
        place = self.places[is_prefix, rule.name]
        place.rules.remove(rule)
        place.look()
        if not place.rules:
            del self.places[is_prefix, rule.name]
            if is_prefix:
                self._chains.clear()
                del self._prefixes[bisect_right(self._prefixes, rule.name) - 1]

    def found(self, name: str) -> Iterator[_Place]:
        """Every place where something is said of this name."""
        places = self.places
        for literal in (name, ANY) if name != ANY else (name,):
            if (place := places.get((False, literal))) is not None:
                yield place
        if behind := bisect_right(self._prefixes, name):
            nearest = self._prefixes[behind - 1]
            for prefix in self._chains.get(nearest) or self._chain(nearest, behind):
                if not name.startswith(prefix):
                    return
                yield places[True, prefix]

    def _chain(self, nearest: str, behind: int) -> tuple[str, ...]:
        chain = [nearest]
        begin = nearest[:-1]
        while behind := bisect_right(self._prefixes, begin, 0, behind - 1):
            other = self._prefixes[behind - 1]
            common = _common_size(other, begin)
            if common == len(other):
                chain.append(other)
                common -= 1
            begin = begin[:common]
        self._chains[nearest] = found = tuple(reversed(chain))
        return found


def _common_size(one: str, other: str) -> int:
    """Of what both begin with."""
    size = min(len(one), len(other))
    return next((index for index in range(size) if one[index] != other[index]), size)


class AccessListView(Protocol):
    """What may be read of it."""

    @property
    def version(self) -> int:
        """Another number whenever something has changed."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Rule]: ...

    def __contains__(self, rule: Rule) -> bool: ...

    def matching(self, wanted: RuleFilter) -> list[Rule]:
        """In an order that does not depend on when they came."""

    def allowed(
        self, principal: Principal, host: str, resource_type: ResourceType, name: str
    ) -> int:
        """Everything that may be done with a resource: a bit for each operation."""

    def names(self, resource_type: ResourceType, name: str) -> bool:
        """Whether any rule applies to this resource, whomever it is about."""

    def allows_somewhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there is a name of a resource with which this may be done."""

    def denying(self, principal: Principal, host: str, right: Right, name: str) -> Rule | None:
        """A rule that denies this, if that is why it may not be done."""


class AccessList:
    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules: dict[Rule, None] = {}
        """In the order in which they came."""
        self.version = 0
        self._about: dict[tuple[ResourceType, Principal, str], _Patterns] = {}
        """By type, principal and host."""
        self._all: dict[ResourceType, _Patterns] = {}
        """Whomever they are about."""
        self.add(rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __contains__(self, rule: Rule) -> bool:
        return rule in self.rules

    def add(self, rules: Iterable[Rule]) -> None:
        """Those that are there are no others."""
        for rule in rules:
            if rule not in self.rules:
                self.rules[rule] = None
                self._about.setdefault(_about(rule), _Patterns()).add(rule)
                self._all.setdefault(rule.resource_type, _Patterns()).add(rule)
        self.version += 1

    def remove(self, rules: Iterable[Rule]) -> None:
        """Those that are there."""
        for rule in rules:
            if rule in self.rules:
                del self.rules[rule]
                key = _about(rule)
                about = self._about[key]
                about.remove(rule)
                if not about.places:
                    del self._about[key]
                self._all[rule.resource_type].remove(rule)
        self.version += 1

    def matching(self, wanted: RuleFilter) -> list[Rule]:
        return sorted(rule for rule in self.rules if wanted.matches(rule))

    def allowed(
        self, principal: Principal, host: str, resource_type: ResourceType, name: str
    ) -> int:
        allowed = denied = 0
        for patterns in self._patterns_about(principal, host, resource_type):
            for place in patterns.found(name):
                allowed |= place.allowed
                denied |= place.denied
        return allowed & ~denied

    def names(self, resource_type: ResourceType, name: str) -> bool:
        patterns = self._all.get(resource_type)
        return patterns is not None and any(True for _ in patterns.found(name))

    def allows_somewhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        bit = 1 << operation
        allowing: list[tuple[bool, str]] = []
        denying: set[tuple[bool, str]] = set()
        for patterns in self._patterns_about(principal, host, resource_type):
            for key, place in patterns.places.items():
                if place.denied & bit:
                    denying.add(key)
                if place.allowed & bit:
                    allowing.append(key)
        if (False, ANY) in denying:
            return False
        return any(
            key not in denying and not any((True, key[1][:end]) in denying for end in _ends(key[1]))
            for key in allowing
        )

    def denying(self, principal: Principal, host: str, right: Right, name: str) -> Rule | None:
        bit = 1 << right.operation
        denying = (
            rule
            for patterns in self._patterns_about(principal, host, right.resource_type)
            for place in patterns.found(name)
            if place.denied & bit
            for rule in place.rules
            if _bits(rule)[1] & bit
        )
        return min(denying, default=None)

    def _patterns_about(
        self, principal: Principal, host: str, resource_type: ResourceType
    ) -> Iterator[_Patterns]:
        for who in (principal, EVERYBODY):
            for where in (host, ANY):
                patterns = self._about.get((resource_type, who, where))
                if patterns is not None:
                    yield patterns


def _about(rule: Rule) -> tuple[ResourceType, Principal, str]:
    return rule.resource_type, rule.principal, written(rule.host)


def _ends(name: str) -> range:
    return range(1, len(name) + 1) if name != ANY else range(0)

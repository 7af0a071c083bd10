"""`semel acl`: who may do what, in the words of Kafka's `kafka-acls`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import App, Parameter

from semel.access.principal import Principal
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
from semel.cli.arguments import DEFAULT_TARGET, Target
from semel.cli.output import note, say, say_json, say_table
from semel.client.admin import acls
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, InvalidRequest, RequestError
from semel.spelling import unknown_name
from semel.wire.rights import CLUSTER_NAME, Operation, ResourceType

app = App(name="acl", help="Say who may do what, show it, and take it back.")

_Resource = tuple[ResourceType, str]
_ALL: Final = (Operation.ALL,)
_AS_PRODUCER: Final = {
    ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_AS_CONSUMER: Final = {
    ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
    ResourceType.GROUP: (Operation.READ,),
}
_OPERATIONS: Final = {each.name.replace("_", "").lower(): each for each in Operation}
_PATTERNS: Final = {
    "literal": int(PatternType.LITERAL),
    "prefixed": int(PatternType.PREFIXED),
    "match": MATCH,
    "any": ANY_NUMBER,
}


def _repeatable(name: str, about: str) -> Parameter:
    return Parameter(name=name, help=f"{about}; repeatable.", negative="")


@Parameter(name="*")
@dataclass(frozen=True)
class Resources:
    """What it is about."""

    topic: Annotated[tuple[str, ...], _repeatable("--topic", "A topic, or *")] = ()
    group: Annotated[tuple[str, ...], _repeatable("--group", "A consumer group, or *")] = ()
    transactional_id: Annotated[
        tuple[str, ...], _repeatable("--transactional-id", "A transactional id, or *")
    ] = ()
    cluster: Annotated[
        bool, Parameter(name="--cluster", negative="", help="The cluster itself.")
    ] = False

    @property
    def named(self) -> list[_Resource]:
        found = [(ResourceType.TOPIC, name) for name in self.topic]
        found += [(ResourceType.GROUP, name) for name in self.group]
        found += [(ResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_id]
        return [*found, (ResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else found


NO_RESOURCES: Final = Resources()


@Parameter(name="*")
@dataclass(frozen=True)
class Granted:
    """Who, from where, and what."""

    allow_principal: Annotated[
        tuple[str, ...], _repeatable("--allow-principal", "Who may, as User:ann, or User:*")
    ] = ()
    deny_principal: Annotated[
        tuple[str, ...], _repeatable("--deny-principal", "Who may not, whatever else is said")
    ] = ()
    allow_host: Annotated[
        tuple[str, ...], _repeatable("--allow-host", "An address from which they may; else any")
    ] = ()
    deny_host: Annotated[
        tuple[str, ...], _repeatable("--deny-host", "An address from which they may not; else any")
    ] = ()
    operation: Annotated[
        tuple[str, ...],
        _repeatable("--operation", "Read, Write, Describe, and so on; else All"),
    ] = ()
    producer: Annotated[
        bool,
        Parameter(
            name="--producer",
            negative="",
            help="What a producer needs of topics, and of transactional ids if there are any.",
        ),
    ] = False
    consumer: Annotated[
        bool,
        Parameter(
            name="--consumer", negative="", help="What a consumer needs of topics and groups."
        ),
    ] = False
    idempotent: Annotated[
        bool,
        Parameter(
            name="--idempotent",
            negative="",
            help="With --producer: that it may be idempotent, which brokers before 2.8 ask for.",
        ),
    ] = False

    @property
    def who(self) -> list[tuple[Permission, str, str]]:
        """Whether they may, who, and from which host."""
        allowed = self._hosts(Permission.ALLOW, self.allow_principal, self.allow_host)
        return allowed + self._hosts(Permission.DENY, self.deny_principal, self.deny_host)

    @staticmethod
    def _hosts(
        permission: Permission, principals: Iterable[str], hosts: Iterable[str]
    ) -> list[tuple[Permission, str, str]]:
        every = tuple(hosts) or (ANY,)
        return [(permission, _principal(who), host) for who in principals for host in every]

    @property
    def is_for_a_client(self) -> bool:
        return self.producer or self.consumer

    def what(self, resources: list[_Resource]) -> list[tuple[_Resource, Operation]]:
        """Each operation with each resource. Raises ConfigError."""
        if not self.is_for_a_client:
            if self.idempotent:
                raise ConfigError("--idempotent goes with --producer")
            chosen = tuple(map(_operation, self.operation)) or _ALL
            return [(resource, operation) for resource in resources for operation in chosen]
        if self.operation:
            raise ConfigError("--producer and --consumer say themselves which operations")
        kinds = {kind for kind, _ in resources}
        if ResourceType.TOPIC not in kinds or (self.consumer and ResourceType.GROUP not in kinds):
            raise ConfigError("--producer needs a --topic, --consumer a --topic and a --group")
        found: dict[tuple[_Resource, Operation], None] = {}
        for is_asked, needed in ((self.producer, _AS_PRODUCER), (self.consumer, _AS_CONSUMER)):
            for resource in resources:
                for operation in needed.get(resource[0], ()) if is_asked else ():
                    found[resource, operation] = None
        if self.idempotent:
            found[(ResourceType.CLUSTER, CLUSTER_NAME), Operation.IDEMPOTENT_WRITE] = None
        return [*found]


NOTHING_GRANTED: Final = Granted()


@app.command
def add(
    *,
    granted: Granted = NOTHING_GRANTED,
    resources: Resources = NO_RESOURCES,
    resource_pattern_type: Annotated[
        str, Parameter(name="--resource-pattern-type", help="literal or prefixed.")
    ] = "literal",
    target: Target = DEFAULT_TARGET,
) -> int:
    """Allow or deny something."""
    rules = _rules(granted, resources, resource_pattern_type)

    async def work(cluster: Cluster) -> dict[Rule, RequestError | None]:
        return await acls.create(cluster, rules)

    outcomes = target.run(work)
    if target.as_json:
        say_json(
            [
                {**_shown(rule), "error": str(error) if error else None}
                for rule, error in outcomes.items()
            ]
        )
    else:
        for rule, error in outcomes.items():
            if error is None:
                say(f"added: {rule}")
            else:
                note(str(error))
    return int(any(outcomes.values()))


@app.command(name="list")
def list_(
    *,
    resources: Resources = NO_RESOURCES,
    principal: Annotated[
        tuple[str, ...], _repeatable("--principal", "Only rules about them, as User:ann")
    ] = (),
    resource_pattern_type: Annotated[
        str,
        Parameter(
            name="--resource-pattern-type",
            help="Of the rules: literal, prefixed or any; or match, which is all that apply to the "
            "names.",
        ),
    ] = "match",
    target: Target = DEFAULT_TARGET,
) -> int:
    """Show rules: all, or those that apply to what is named."""
    pattern = _pattern(resource_pattern_type)
    whom: list[str | None] = [_principal(each) for each in principal]
    named: list[tuple[int, str | None]] = [*resources.named] or [(ANY_NUMBER, None)]
    wanted = [
        RuleFilter(kind, name, ANY_NUMBER if name is None else pattern, who)
        for kind, name in named
        for who in whom or [None]
    ]

    async def work(cluster: Cluster) -> list[Rule]:
        found = [rule for each in wanted for rule in await acls.describe(cluster, each)]
        return sorted({*found})

    return _say_rules(target.run(work), as_json=target.as_json)


@app.command
def remove(
    *,
    granted: Granted = NOTHING_GRANTED,
    resources: Resources = NO_RESOURCES,
    resource_pattern_type: Annotated[
        str,
        Parameter(
            name="--resource-pattern-type",
            help="Of the rules: literal, prefixed or any; or match, which is all that apply to the "
            "names.",
        ),
    ] = "literal",
    target: Target = DEFAULT_TARGET,
) -> int:
    """Take back what was said; of a resource alone, all that was said of it."""
    wanted = _filters(granted, resources, _pattern(resource_pattern_type))

    async def work(cluster: Cluster) -> list[Rule]:
        return await acls.delete(cluster, wanted)

    gone = target.run(work)
    if target.as_json:
        return _say_rules(gone, as_json=True)
    for rule in gone:
        say(f"removed: {rule}")
    if not gone:
        note("no rule is like that")
    return int(not gone)


def _rules(granted: Granted, resources: Resources, pattern: str) -> list[Rule]:
    number = _pattern(pattern)
    if number not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ConfigError("a rule is literal or prefixed")
    who = granted.who
    if not who:
        raise ConfigError("name who may (--allow-principal) or who may not (--deny-principal)")
    if not resources.named:
        raise ConfigError("name a --topic, a --group, a --transactional-id or the --cluster")
    try:
        return [
            rule_of(
                kind,
                name,
                PatternType.LITERAL if kind is ResourceType.CLUSTER else number,
                principal,
                host,
                operation,
                permission,
            )
            for (kind, name), operation in granted.what(resources.named)
            for permission, principal, host in who
        ]
    except InvalidRequest as error:
        raise ConfigError(str(error)) from error


def _filters(granted: Granted, resources: Resources, pattern: int) -> list[RuleFilter]:
    who: list[tuple[int, str | None, str | None]] = [*granted.who]
    if not who and not resources.named:
        raise ConfigError("name what it was about: a resource, or a principal")
    if (granted.allow_host and not granted.allow_principal) or (
        granted.deny_host and not granted.deny_principal
    ):
        raise ConfigError("a host goes with a principal")
    what: list[tuple[int, str | None, int]]
    if not resources.named:
        chosen: list[int] = [*map(_operation, granted.operation)]
        what = [(ANY_NUMBER, None, operation) for operation in chosen or [ANY_NUMBER]]
    elif granted.is_for_a_client or granted.operation:
        what = [(*resource, operation) for resource, operation in granted.what(resources.named)]
    else:
        what = [(*resource, ANY_NUMBER) for resource in resources.named]
    return [
        RuleFilter(
            kind,
            name,
            ANY_NUMBER if name is None else _of_kind(kind, pattern),
            principal,
            host,
            operation,
            permission,
        )
        for kind, name, operation in what
        for permission, principal, host in who or [(ANY_NUMBER, None, None)]
    ]


def _of_kind(kind: int, pattern: int) -> int:
    """There is but one cluster."""
    return PatternType.LITERAL if kind == ResourceType.CLUSTER else pattern


def _principal(text: str) -> str:
    try:
        return str(Principal.parse(text))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _operation(text: str) -> Operation:
    found = _OPERATIONS.get(text.replace("-", "").replace("_", "").lower())
    if found is None:
        raise ConfigError(unknown_name("operation", text, map(_in_words, Operation)))
    return found


def _pattern(text: str) -> int:
    found = _PATTERNS.get(text.lower())
    if found is None:
        raise ConfigError(unknown_name("pattern type", text, _PATTERNS))
    return found


def _in_words(operation: Operation) -> str:
    return operation.name.title().replace("_", "")


def _shown(rule: Rule) -> dict[str, str]:
    return {
        "resource_type": rule.resource_type.name,
        "name": rule.name,
        "pattern_type": rule.pattern_type.name,
        "principal": str(rule.principal),
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
    }


def _say_rules(rules: list[Rule], *, as_json: bool) -> int:
    if as_json:
        say_json([_shown(rule) for rule in rules])
        return 0
    columns = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")
    say_table(columns, [tuple(_shown(rule).values()) for rule in rules])
    return 0

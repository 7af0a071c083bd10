"""The access list decides as one does who looks at every rule, however rules come and go."""

from hypothesis import given
from hypothesis import strategies as st

from access import naive_rules
from semel.access.access_list import AccessList
from semel.access.principal import Caller, Principal
from semel.access.rights import UNRESTRICTED, AccessSettings, CallersRights
from semel.access.rules import PatternType, Permission, Rule, RuleFilter
from semel.wire.rights import (
    DESCRIBE_TOPIC,
    OPERATIONS_ON,
    READ_TOPIC,
    WRITE_TOPIC,
    Operation,
    ResourceType,
    Right,
)

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
NAMES = ("*", "a", "ab", "abc", "b", "hardcode")
RULES = st.builds(
    Rule,
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from(PatternType),
    st.sampled_from((ALICE, BOB, Principal("User", "*"))),
    st.sampled_from(("*", "10.0.0.1", "10.0.0.2")),
    st.sampled_from(Operation),
    st.sampled_from(Permission),
)
WHOLE = st.lists(RULES, max_size=12)
ASKED = st.tuples(
    st.sampled_from((ALICE, BOB)),
    st.sampled_from(("10.0.0.1", "10.0.0.2")),
    st.sampled_from([each for each in Operation if each is not Operation.ALL]),
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    st.sampled_from(NAMES[1:]),
)
Asked = tuple[Principal, str, Operation, ResourceType, str]


def topic_rule(
    operation: Operation,
    name: str = "orders",
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    principal: Principal = ALICE,
) -> Rule:
    return Rule(ResourceType.TOPIC, name, pattern, principal, "*", operation, permission)


STRICT = AccessSettings()


def rights_of(
    access_list: AccessList, settings: AccessSettings = STRICT, caller: Principal = ALICE
) -> CallersRights:
    return CallersRights(
        Caller(caller, host="10.0.0.1"), lambda: access_list, settings, lambda *_: None
    )


SHORT = st.text("ab", max_size=6)


@given(st.lists(SHORT, max_size=25), st.data(), SHORT)
def test_every_prefix_of_a_name_counts(prefixes: list[str], data: st.DataObject, name: str) -> None:
    """Each allows an operation of its own, as far as there are some."""
    operations = [each for each in Operation if each is not Operation.ALL]
    rules = [
        topic_rule(data.draw(st.sampled_from(operations)), prefix, PatternType.PREFIXED)
        for prefix in prefixes
    ]
    access_list = AccessList(rules)
    gone = data.draw(st.sets(st.sampled_from(rules))) if rules else set[Rule]()
    for removed in (set[Rule](), gone):
        # Between two decisions, as what was found before is remembered.
        access_list.remove(removed)
        left = [rule for rule in rules if rule not in removed]
        allowed = access_list.allowed(ALICE, "h", ResourceType.TOPIC, name)
        for each in operations:
            asked = ALICE, "h", each, ResourceType.TOPIC, name
            assert bool(allowed >> each & 1) == naive_rules.may(left, *asked)


@given(WHOLE, ASKED, st.booleans())
def test_all_operations_at_once_are_those_that_are_allowed_one_by_one(
    rules: list[Rule], asked: Asked, is_generous: bool
) -> None:
    principal, host, _, resource_type, name = asked
    access_list = AccessList(rules)
    settings = AccessSettings(allows_if_no_rule=is_generous)
    rights = CallersRights(
        Caller(principal, host=host), lambda: access_list, settings, lambda *_: None
    )
    assert rights.operations(resource_type, name) == sum(
        1 << each
        for each in OPERATIONS_ON[resource_type]
        if rights.may(Right(resource_type, each), name)
    )


@given(WHOLE, st.lists(st.integers(0, 11)), ASKED)
def test_what_may_be_done_is_what_all_rules_together_say(
    rules: list[Rule], gone: list[int], asked: Asked
) -> None:
    principal, host, operation, resource_type, name = asked
    removed = {rules[index] for index in gone if index < len(rules)}
    access_list = AccessList(rules)
    access_list.remove(removed)
    allowed = access_list.allowed(principal, host, resource_type, name)
    left = [rule for rule in rules if rule not in removed]
    assert bool(allowed >> operation & 1) == naive_rules.may(
        left, principal, host, operation, resource_type, name
    )
    assert access_list.names(resource_type, name) == any(
        naive_rules.applies(rule, resource_type, name) for rule in left
    )


@given(WHOLE, WHOLE, ASKED)
def test_what_was_decided_is_forgotten_when_rules_change(
    before: list[Rule], after: list[Rule], asked: Asked
) -> None:
    principal, host, operation, resource_type, name = asked
    access_list = AccessList(before)
    caller = Caller(principal, host=host)
    rights = CallersRights(caller, lambda: access_list, AccessSettings(), lambda *_: None)
    rights.may(Right(resource_type, operation), name)
    access_list.remove(before)
    access_list.add(after)
    assert rights.may(Right(resource_type, operation), name) == naive_rules.may(
        after, principal, host, operation, resource_type, name
    )


@given(WHOLE, ASKED)
def test_somewhere_is_where_some_name_is_allowed(rules: list[Rule], asked: Asked) -> None:
    principal, host, operation, resource_type, _ = asked
    tried = ["~", *(name for name in NAMES if name != "*"), *(name + "~" for name in NAMES)]
    right, access_list = Right(resource_type, operation), AccessList(rules)
    rights = CallersRights(
        Caller(principal, host=host), lambda: access_list, AccessSettings(), lambda *_: None
    )
    may_somewhere = rights.may_somewhere(right)
    assert may_somewhere == any(
        naive_rules.may(rules, principal, host, operation, resource_type, name) for name in tried
    )
    # It is remembered until the rules are others.
    assert rights.may_somewhere(right) == may_somewhere
    access_list.remove(rules)
    assert not rights.may_somewhere(right)


@given(WHOLE, RULES)
def test_a_filter_made_of_a_rule_finds_that_rule_alone(rules: list[Rule], wanted: Rule) -> None:
    resource_type, name, pattern, principal, host, operation, permission = wanted
    exact = RuleFilter(resource_type, name, pattern, str(principal), host, operation, permission)
    assert AccessList(rules).matching(exact) == ([wanted] if wanted in rules else [])


@given(WHOLE, st.sampled_from(NAMES[1:]))
def test_matching_patterns_are_those_that_apply(rules: list[Rule], name: str) -> None:
    found = AccessList(rules).matching(RuleFilter(ResourceType.TOPIC, name, pattern_type=2))
    applying = {rule for rule in rules if naive_rules.applies(rule, ResourceType.TOPIC, name)}
    assert set(found) == applying


def test_who_is_denied_to_read_may_still_describe() -> None:
    access_list = AccessList(
        [
            topic_rule(Operation.WRITE),
            topic_rule(Operation.READ, permission=Permission.DENY),
            topic_rule(Operation.READ, "*"),
        ]
    )
    rights = rights_of(access_list)
    assert not rights.may(READ_TOPIC, "orders")
    assert rights.may(DESCRIBE_TOPIC, "orders")


def test_super_users_pass_whatever_is_denied() -> None:
    access_list = AccessList([topic_rule(Operation.ALL, "*", permission=Permission.DENY)])
    settings = AccessSettings(frozenset({ALICE}))
    assert rights_of(access_list, settings).may(WRITE_TOPIC, "orders")
    assert not rights_of(access_list, settings, BOB).may(WRITE_TOPIC, "orders")


def test_only_where_it_is_set_is_allowed_what_no_rule_names() -> None:
    access_list = AccessList([topic_rule(Operation.READ, "or", PatternType.PREFIXED)])
    generous = rights_of(access_list, AccessSettings(allows_if_no_rule=True), BOB)
    assert generous.may(READ_TOPIC, "payments")
    assert not generous.may(READ_TOPIC, "orders")
    assert not rights_of(access_list, caller=BOB).may(READ_TOPIC, "payments")


def test_names_that_are_made_up_take_no_more_than_a_bound() -> None:
    rights = rights_of(AccessList())
    for number in range(10_000):
        rights.may(READ_TOPIC, f"topic-{number}")
    assert len(rights._remembered) <= 4_096


def test_without_access_control_everything_may_be_done_that_such_a_resource_has() -> None:
    of_topic = UNRESTRICTED.operations(ResourceType.TOPIC)
    assert of_topic >> Operation.READ & 1
    assert not of_topic >> Operation.CLUSTER_ACTION & 1


def test_refusals_are_told_of_and_what_is_left_out_is_not() -> None:
    told: list[tuple[Right, str]] = []
    rights = CallersRights(
        Caller(), AccessList, AccessSettings(), lambda _, *what: told.append(what)
    )
    rights.may_see(READ_TOPIC, "hidden")
    rights.may(READ_TOPIC, "asked for")
    assert told == [(READ_TOPIC, "asked for")]

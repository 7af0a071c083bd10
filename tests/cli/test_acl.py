"""`semel acl` against a broker with access control, in the words of `kafka-acls`."""

import json
from collections.abc import Callable, Iterator

import pytest

import semel
from semel.broker.setting import AUTHORIZER
from semel.cli.main import main
from semel.errors import ConfigError
from semel.testing import Broker
from support.command_line import rows

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def acl(
    guarded: Broker, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    monkeypatch.setenv("SEMEL_BOOTSTRAP_SERVERS", guarded.bootstrap_servers)

    def command(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(["acl", *arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    yield command
    for kind in ("--topic", "--group", "--transactional-id"):
        command("remove", kind, "*", "--resource-pattern-type", "any")
    command("remove", "--allow-principal", "User:ann")
    command("remove", "--deny-principal", "User:ann")


def shown(acl: Run, *arguments: str) -> list[tuple[str, ...]]:
    code, out, _ = acl("list", "--json", *arguments)
    assert code == 0
    return [tuple(each.values()) for each in json.loads(out)]


def test_a_rule_is_added_listed_and_removed(acl: Run) -> None:
    what = ("--allow-principal", "User:ann", "--operation", "read", "--topic", "orders")
    said = "ALLOW User:ann from * READ on TOPIC 'orders'"
    assert acl("add", *what) == (0, f"added: {said}\n", "")
    assert rows(acl("list")[1]) == [
        ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"],
        ["TOPIC", "orders", "LITERAL", "User:ann", "*", "READ", "ALLOW"],
    ]
    assert acl("remove", *what) == (0, f"removed: {said}\n", "")
    assert acl("remove", *what) == (1, "", "semel: no rule is like that\n")
    assert shown(acl) == []


def test_a_producer_and_a_consumer_get_what_they_need(acl: Run) -> None:
    ann = ("--allow-principal", "User:ann", "--topic", "o-", "--resource-pattern-type", "prefixed")
    assert acl("add", *ann, "--producer", "--transactional-id", "pay", "--idempotent")[0] == 0
    rule = "PREFIXED", "User:ann", "*"
    assert shown(acl) == [
        ("TOPIC", "o-", *rule, "WRITE", "ALLOW"),
        ("TOPIC", "o-", *rule, "CREATE", "ALLOW"),
        ("TOPIC", "o-", *rule, "DESCRIBE", "ALLOW"),
        ("CLUSTER", "kafka-cluster", "LITERAL", *rule[1:], "IDEMPOTENT_WRITE", "ALLOW"),
        ("TRANSACTIONAL_ID", "pay", *rule, "WRITE", "ALLOW"),
        ("TRANSACTIONAL_ID", "pay", *rule, "DESCRIBE", "ALLOW"),
    ]
    assert acl("remove", "--allow-principal", "User:ann")[0] == 0
    assert acl("add", *ann[:-1], "literal", "--consumer", "--group", "readers")[0] == 0
    rule = "LITERAL", "User:ann", "*"
    assert shown(acl) == [
        ("TOPIC", "o-", *rule, "READ", "ALLOW"),
        ("TOPIC", "o-", *rule, "DESCRIBE", "ALLOW"),
        ("GROUP", "readers", *rule, "READ", "ALLOW"),
    ]


def test_rules_are_found_by_what_they_apply_to(acl: Run) -> None:
    acl("add", "--allow-principal", "User:ann", "--topic", "orders", "--topic", "*")
    acl("add", "--deny-principal", "User:ann", "--deny-host", "10.0.0.1", "--topic", "ord",
        "--resource-pattern-type", "prefixed", "--operation", "Write")  # fmt: skip

    def names(*arguments: str) -> list[tuple[str, ...]]:
        return [each[1:3] for each in shown(acl, *arguments)]

    everything = [("*", "LITERAL"), ("ord", "PREFIXED"), ("orders", "LITERAL")]
    assert names("--topic", "orders") == everything
    assert names("--topic", "orders", "--resource-pattern-type", "literal") == [everything[2]]
    assert names("--topic", "ord", "--resource-pattern-type", "prefixed") == [everything[1]]
    assert names("--topic", "other") == [everything[0]]
    assert names("--principal", "User:bob") == []
    assert len(names("--principal", "User:ann")) == 3
    assert shown(acl, "--topic", "ord", "--resource-pattern-type", "any") == [
        ("TOPIC", "ord", "PREFIXED", "User:ann", "10.0.0.1", "WRITE", "DENY")
    ]
    code, out, _ = acl("remove", "--topic", "orders", "--resource-pattern-type", "match", "--json")
    assert (code, len(json.loads(out))) == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "--topic", "t"), "name who may (--allow-principal) or who may not"),
        (("add", "--allow-principal", "User:a"), "name a --topic, a --group"),
        (("add", "--allow-principal", "ann", "--topic", "t"), "'ann' is no principal"),
        (
            ("add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Raed"),
            "there is no operation 'Raed'; did you mean 'Read'?",
        ),
        (
            ("add", "--allow-principal", "User:a", "--topic", "t", "--consumer"),
            "--consumer a --topic and a --group",
        ),
        (
            ("add", "--allow-principal", "User:a", "--topic", "t", "--idempotent"),
            "--idempotent goes with --producer",
        ),
        (
            (
                "add",
                "--allow-principal",
                "User:a",
                "--topic",
                "t",
                "--resource-pattern-type",
                "any",
            ),
            "a rule is literal or prefixed",
        ),
        (("remove",), "name what it was about"),
        (("list", "--resource-pattern-type", "prefix"), "did you mean 'prefixed'?"),
    ],
)
def test_what_cannot_be_meant_is_said(acl: Run, arguments: tuple[str, ...], sentence: str) -> None:
    code, out, err = acl(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err


def test_without_access_control_a_sentence_says_so(semel_broker: Broker) -> None:
    arguments = ["acl", "list", "-b", semel_broker.bootstrap_servers]
    assert main(arguments) == 1


def test_the_admin_has_the_same_rules(guarded: Broker, acl: Run) -> None:
    rules = [
        semel.Acl("User:ann", "read", "topic", "orders"),
        semel.Acl("User:ann", "write", "topic", "ord", "prefixed", "10.0.0.1", "deny"),
        semel.Acl("User:ann", "idempotent-write", "cluster"),
    ]
    with semel.Admin(guarded.bootstrap_servers) as admin:
        admin.create_acls(rules)
        assert admin.list_acls(principal="User:ann") == [
            *rules[1::-1],
            rules[2]._replace(operation="idempotent_write"),
        ]
        assert admin.list_acls("topic", "orders") == rules[1::-1]
        assert admin.list_acls("topic", "order") == [rules[1]]
        assert ("TOPIC", "orders", "LITERAL", "User:ann", "*", "READ", "ALLOW") in shown(acl)
        assert admin.delete_acls(rules[:2]) == rules[1::-1]
        assert admin.delete_acls(rules[:2]) == []
        with pytest.raises(ConfigError, match="no operation 'raed'; did you mean 'read'"):
            admin.create_acls([semel.Acl("User:ann", "raed", "topic", "t")])
        with pytest.raises(ConfigError, match="'ann' is no principal"):
            admin.create_acls([semel.Acl("ann", "read", "topic", "t")])

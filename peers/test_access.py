"""Access lists on Semel and on Apache Kafka: the same rules and the same requests, and replies that
are the same field by field. And Kafka's own commands for them, on Semel.

Nobody signs in here. Two addresses of this machine are two who ask: rules of one of them let it do
everything, and the other may what the rules of a case say.
"""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, Final

import msgspec
import pytest
from peers.kafka_broker import Kafka
from peers.test_kafka_tools import run_tool

from semel.access.principal import ANONYMOUS
from semel.access.rules import PatternType, Permission, Rule
from semel.broker.setting import AUTHORIZER
from semel.testing import Broker
from semel.wire.rights import (
    CLUSTER_NAME,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_ID,
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    WRITE_ID,
    WRITE_TOPIC,
    Operation,
    ResourceType,
    Right,
)
from support.access_table import CASES, GROUP, ID, REFUSALS, TOPIC, Case, codes, request, rules
from support.raw_client import RawClient

ROOT_HOST, ANN_HOST = "127.0.0.1", "127.0.0.2"
SETTINGS: Final = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
SAME_EVERYWHERE: Final = frozenset(
    {"error_message", "throttle_time_ms", "brokers", "cluster_id", "controller_id"}
)
"""Of these each broker has its own."""
ONLY_CODES: Final = frozenset({"describe_user_scram_credentials"})
"""Kafka names no user in its refusal, and yet has as many results as users were asked for."""
PATIENCE: Final = 2_000
"""Looks at the access list."""


class RawClientFrom(RawClient):
    def __init__(self, port: int, host: str) -> None:
        self._socket = socket.create_connection((ROOT_HOST, port), 60, source_address=(host, 0))


class Guarded:
    """A broker, and connections to it of who may everything and of who may not."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.root = RawClientFrom(port, ROOT_HOST)
        self.ann = RawClientFrom(port, ANN_HOST)

    def connect_anew(self) -> None:
        """A broker may have closed what was there."""
        self.close()
        self.__init__(self._port)  # type: ignore[misc]

    def close(self) -> None:
        for each in (self.root, self.ann):
            each.__exit__(None, None, None)


def ask(client: RawClient, module: str, version: int, **fields: Any) -> Any:
    return client.call(module, version, request(module, **fields))


ANYTHING: Final = {
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}


def said_of_ann(guarded: Guarded) -> int:
    """So many rules there are for the broker that decides: Kafka's hears of them later."""
    shown = ask(guarded.root, "describe_acls", 3, **ANYTHING, host_filter=ANN_HOST)
    assert shown.error_code == 0
    return sum(len(each.acls) for each in shown.resources)


def until_there_are(guarded: Guarded, count: int) -> None:
    for _ in range(PATIENCE):
        if said_of_ann(guarded) == count:
            return
    pytest.fail(f"there are {said_of_ann(guarded)} rules and not {count}")


def say(guarded: Guarded, said: Iterable[Rule]) -> None:
    """Let these be all rules about ann."""
    gone = ask(guarded.root, "delete_acls", 3, filters=[ANYTHING | {"host_filter": ANN_HOST}])
    assert not any(codes(gone))
    until_there_are(guarded, 0)
    creations = [creation(rule) for rule in said]
    added = ask(guarded.root, "create_acls", 3, creations=creations)
    assert not any(codes(added))
    until_there_are(guarded, len(creations))


def creation(rule: Rule) -> dict[str, Any]:
    kind, name, pattern, principal, host, operation, permission = rule.stored()
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }


def of_ann(rights: Iterable[Right]) -> list[Rule]:
    return [each._replace(principal=ANONYMOUS, host=ANN_HOST) for each in rules(rights)]


def fill(guarded: Guarded) -> None:
    """What requests name is there, also after one that has deleted it."""
    topics = [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}]
    made = ask(guarded.root, "create_topics", 7, topics=topics, timeout_ms=10_000)
    assert {*codes(made)} <= {0, 36}, made
    for _ in range(PATIENCE):
        found = ask(guarded.root, "metadata", 9, **LOOK)
        if not any(codes(found)):
            break
    commit = next(case for case in CASES if case.module == "offset_commit")
    for key, kind in ((GROUP, 0), (ID, 1)):
        for _ in range(PATIENCE):
            found = ask(guarded.root, "find_coordinator", 3, key=key, key_type=kind)
            if not found.error_code:
                break
    for _ in range(PATIENCE):
        done = guarded.root.call(commit.module, commit.version, commit.request)
        if not any(codes(done)):
            break
    asked: dict[str, Any] = {"transactional_id": ID, "transaction_timeout_ms": 60_000}
    for _ in range(PATIENCE):
        if not ask(guarded.root, "init_producer_id", 4, **asked).error_code:
            return
    pytest.fail("there is no coordinator")


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Guarded, Guarded]]:
    """Ours, and Kafka's."""
    with ExitStack() as stack:
        brokers = (
            stack.enter_context(Broker(settings=SETTINGS)),
            stack.enter_context(Kafka(SETTINGS)),
        )
        found = []
        for broker in brokers:
            guarded = Guarded(broker.port)
            stack.callback(guarded.close)
            everything = [
                Rule(
                    kind,
                    CLUSTER_NAME if kind is ResourceType.CLUSTER else "*",
                    PatternType.LITERAL,
                    ANONYMOUS,
                    ROOT_HOST,
                    Operation.ALL,
                    Permission.ALLOW,
                )
                for kind in ResourceType
                if kind is not ResourceType.DELEGATION_TOKEN and kind is not ResourceType.USER
            ]
            # With the first of them nobody else may anything.
            made = ask(guarded.root, "create_acls", 3, creations=[*map(creation, everything)])
            assert not any(codes(made))
            for _ in range(PATIENCE):
                refused = ask(guarded.ann, "describe_acls", 3, **ANYTHING)
                if refused.error_code:
                    break
            fill(guarded)
            found.append(guarded)
        ours, theirs = found
        yield ours, theirs


def plain(value: Any) -> Any:
    """Without what is each broker's own; what is empty is as what is not there."""
    if isinstance(value, msgspec.Struct):
        fields = {
            name: plain(getattr(value, name))
            for name in value.__struct_fields__
            if name not in SAME_EVERYWHERE
        }
        if fields.get("topic_id"):
            fields["topic_id"] = any(fields["topic_id"])
        return fields
    if isinstance(value, list):
        return [plain(each) for each in value] or None
    return (bytes(value) if isinstance(value, memoryview) else value) or None


LOOK: Final = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}


def empty(guarded: Guarded) -> None:
    """The topic is not there."""
    gone = ask(guarded.root, "delete_topics", 5, topic_names=[TOPIC], timeout_ms=10_000)
    assert {*codes(gone)} <= {0, 3}, gone
    for _ in range(PATIENCE):
        found = ask(guarded.root, "metadata", 9, **LOOK)
        if any(codes(found)):
            return
    pytest.fail("the topic is still there")


def asked_of(guarded: Guarded, case: Case) -> Any:
    return guarded.ann.call(case.module, case.version, case.request)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_refusals_are_those_of_kafka(both: tuple[Guarded, Guarded], case: Case) -> None:
    variants = {
        tuple(each for each in rights if each is not lacking): None
        for rights in case.enough
        for lacking in rights
    }
    for guarded in both:
        guarded.connect_anew()
    creates = any(CREATE_TOPIC in rights for rights in case.enough)
    for variant in ((), *variants):
        replies = []
        for guarded in both:
            say(guarded, of_ann(variant))
            if creates:
                empty(guarded)
            replies.append(asked_of(guarded, case))
        ours, theirs = replies
        assert REFUSALS & {*codes(theirs)}, variant
        if case.module in ONLY_CODES:
            assert {*codes(ours)} == {*codes(theirs)}, variant
        else:
            assert plain(ours) == plain(theirs), variant
    for rights in case.enough:
        for guarded in both:
            say(guarded, of_ann(rights))
            allowed = asked_of(guarded, case)
            assert not REFUSALS & {*codes(allowed)}, rights
            if creates or case.module.startswith(("delete_", "offset_delete")):
                fill(guarded)


LISTS: Final[list[tuple[str, int, dict[str, Any], Callable[[Any], Any]]]] = [
    (
        "metadata",
        9,
        {"topics": None, "include_topic_authorized_operations": True},
        lambda reply: sorted(
            (each.name, each.topic_authorized_operations)
            for each in reply.topics
            if not each.is_internal
        ),
    ),
    (
        "metadata",
        9,
        {"topics": None, "include_cluster_authorized_operations": True},
        lambda reply: reply.cluster_authorized_operations,
    ),
    (
        "describe_topic_partitions",
        0,
        {},
        lambda reply: [
            (each.name, each.topic_authorized_operations)
            for each in reply.topics
            if not each.is_internal
        ],
    ),
    (
        "describe_cluster",
        0,
        {"include_cluster_authorized_operations": True},
        lambda reply: (reply.error_code, reply.cluster_authorized_operations),
    ),
    (
        "describe_groups",
        5,
        {"groups": [GROUP], "include_authorized_operations": True},
        lambda reply: [(each.error_code, each.authorized_operations) for each in reply.groups],
    ),
    ("list_groups", 4, {}, lambda reply: [each.group_id for each in reply.groups]),
    (
        "list_transactions",
        0,
        {},
        lambda reply: [each.transactional_id for each in reply.transaction_states],
    ),
    (
        "describe_transactions",
        0,
        {"transactional_ids": [ID]},
        lambda reply: [
            (each.error_code, [topic.topic for topic in each.topics])
            for each in reply.transaction_states
        ],
    ),
    (
        "offset_fetch",
        8,
        {"groups": [{"group_id": GROUP, "topics": None}]},
        lambda reply: [
            (each.error_code, [topic.name for topic in each.topics]) for each in reply.groups
        ],
    ),
]


@pytest.mark.parametrize(
    "rights",
    [
        (),
        (DESCRIBE_TOPIC,),
        (READ_TOPIC, READ_GROUP),
        (WRITE_TOPIC, WRITE_ID),
        (DESCRIBE_CLUSTER,),
        (DESCRIBE_GROUP, DESCRIBE_ID),
    ],
    ids=lambda rights: ", ".join(map(str, rights)) or "none",
)
def test_lists_leave_out_what_kafka_leaves_out(
    both: tuple[Guarded, Guarded], rights: tuple[Right, ...]
) -> None:
    for guarded in both:
        guarded.connect_anew()
        fill(guarded)
        say(guarded, of_ann(rights))
    for module, version, fields, shown in LISTS:
        ours, theirs = (shown(ask(each.ann, module, version, **fields)) for each in both)
        assert ours == theirs, (module, fields)


# Kafka's commands


Tool = Callable[..., list[str]]


@pytest.fixture(scope="module")
def guarded_servers() -> Iterator[str]:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with Broker(settings=settings) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def tool(guarded_servers: str) -> Tool:
    return run_tool(guarded_servers)


def test_kafka_acls(tool: Tool) -> None:
    ann = "--allow-principal", "User:ann"
    added = tool("kafka-acls", "--add", *ann, "--producer", "--topic", "tools-acls")
    assert "Adding ACLs for resource" in added[0]
    tool("kafka-acls", "--add", *ann, "--consumer", "--topic", "tools-", "--group", "g",
         "--resource-pattern-type", "prefixed")  # fmt: skip
    tool("kafka-acls", "--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1",
         "--operation", "All", "--cluster")  # fmt: skip
    listed = "\n".join(tool("kafka-acls", "--list"))
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        wanted = f"(principal=User:ann, host=*, operation={operation}, permissionType=ALLOW)"
        assert wanted in listed
    assert "(principal=User:bob, host=10.0.0.1, operation=ALL, permissionType=DENY)" in listed
    assert "patternType=PREFIXED" in listed
    of_bob = "\n".join(tool("kafka-acls", "--list", "--principal", "User:bob"))
    assert "User:ann" not in of_bob
    left = tool("kafka-acls", "--remove", "--topic", "tools-acls", "--force")
    assert not any("tools-acls" in line for line in left)
    everything = "\n".join(tool("kafka-acls", "--list"))
    assert "name=tools-acls" not in everything
    assert "name=tools-," in everything


def test_kafka_configs_makes_users(tool: Tool) -> None:
    whose = "--entity-type", "users", "--entity-name", "ann"
    secret = "SCRAM-SHA-256=[iterations=4096,password=secret]"
    tool("kafka-configs", "--alter", *whose, "--add-config", secret)
    shown = tool("kafka-configs", "--describe", *whose)
    assert any("SCRAM-SHA-256=iterations=4096" in line for line in shown)
    tool("kafka-configs", "--alter", *whose, "--delete-config", "SCRAM-SHA-256")
    assert not any("SCRAM" in line for line in tool("kafka-configs", "--describe", *whose))

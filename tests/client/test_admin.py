"""Both faces of the admin, against a broker."""

import asyncio
import inspect
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import semel
from semel.errors import (
    ConfigError,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidConfig,
    InvalidTopic,
    InvalidTransactionState,
    NetworkException,
    NotInOrder,
    OffsetOutOfRange,
    RequestError,
    TopicAlreadyExists,
    TransactionalIdNotFound,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from semel.testing import Broker
from semel.types import TopicPartition


@pytest.fixture
def admin(semel_broker: Broker) -> Iterator[semel.Admin]:
    with semel.Admin(semel_broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(admin: semel.Admin, request: pytest.FixtureRequest) -> str:
    name = f"admin-{request.node.name[:150]}"
    admin.create_topics(name, partitions=2, configs={"retention.ms": 5_000_000})
    return name


def fill(broker: Broker, topic: str, *times_ms: int) -> None:
    with semel.Producer(broker.bootstrap_servers) as producer:
        for time_ms in times_ms:
            producer.send(topic, b"x", partition=0, timestamp_ms=time_ms).result()


def test_both_faces_have_the_same_calls() -> None:
    def calls(face: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(call).parameters)
            for name, call in vars(face).items()
            if not name.startswith("_") and callable(call)
        }

    assert calls(semel.Admin) == calls(semel.AsyncAdmin)


def test_topics_come_and_go(admin: semel.Admin) -> None:
    admin.create_topics(["admin-come-a", "admin-come-b"], partitions=3)
    assert admin.list_topics("admin-come-.") == ["admin-come-a", "admin-come-b"]
    assert len(admin.describe_topics("admin-come-a")["admin-come-a"].partitions) == 3
    with pytest.raises(TopicAlreadyExists, match="admin-come-a") as refused:
        admin.create_topics(["admin-come-a", "admin-come-b", "admin-come-c"])
    assert "admin-come-b" in refused.value.__notes__[0]
    admin.create_topics("admin-come-a", exist_ok=True)
    admin.create_partitions("admin-come-a", 5)
    assert len(admin.describe_topics()["admin-come-a"].partitions) == 5
    admin.delete_topics(admin.list_topics("admin-come-."))
    assert admin.list_topics("admin-come-.") == []
    admin.delete_topics("admin-come-a", missing_ok=True)
    with pytest.raises(UnknownTopicOrPartition, match="admin-come-a"):
        admin.delete_topics("admin-come-a")


def test_offsets_are_told_by_place_and_time_and_records_deleted(
    admin: semel.Admin, topic: str, semel_broker: Broker
) -> None:
    fill(semel_broker, topic, 1_000, 2_000, 3_000)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert admin.end_offsets(topic) == {first: 3, second: 0}
    assert admin.offsets_at([first], datetime.fromtimestamp(2, UTC)) == {first: 1}
    assert admin.offsets_at(topic, 4_000) == {first: 3, second: 0}
    assert admin.sizes(first)[first] > 3
    assert admin.delete_records({first: 2}) == {first: 2}
    assert admin.beginning_offsets(topic) == {first: 2, second: 0}
    with pytest.raises(OffsetOutOfRange, match="between 0 and the end"):
        admin.delete_records({first: 4})
    with pytest.raises(UnknownTopicOrPartition, match="has no partition 7"):
        admin.end_offsets(TopicPartition(topic, 7))


def test_settings_are_changed_one_by_one(admin: semel.Admin, topic: str) -> None:
    admin.alter_configs("topic", topic, {"retention.bytes": 77, "preallocate": True})
    entries = admin.describe_configs("topic", topic)
    assert [entries[name].value for name in ("retention.ms", "retention.bytes")] == [
        "5000000",
        "77",
    ]
    admin.alter_configs("topic", topic, {"retention.bytes": None})
    assert admin.describe_configs("topic", topic)["retention.bytes"].value == "-1"
    broker_id = admin.describe_cluster().controller_id
    assert "log.retention.ms" in admin.describe_configs("broker", broker_id)
    with pytest.raises(InvalidConfig):
        admin.alter_configs("topic", topic, {"retention.bytes": "many", "segment.ms": 77})
    assert admin.describe_configs("topic", topic)["segment.ms"].value != "77"
    with pytest.raises(ConfigError, match="there is no broker '99'"):
        admin.describe_configs("broker", 99)


def test_a_group_is_moved_and_forgets(admin: semel.Admin, topic: str, semel_broker: Broker) -> None:
    fill(semel_broker, topic, 1_000, 2_000, 3_000)
    first = TopicPartition(topic, 0)
    group = f"group-of-{topic}"
    with semel.Consumer(semel_broker.bootstrap_servers, group) as consumer:
        consumer.subscribe(topic)
        while consumer.assignment != admin.end_offsets(topic).keys():
            consumer.poll()
        assert len(admin.describe_group(group).members) == 1
        with pytest.raises(UnknownMemberId, match="has members"):
            admin.set_offsets(group, {first: 1})
        with pytest.raises(GroupSubscribedToTopic, match=f"reads topic {topic}"):
            admin.delete_offsets(group, topic)
    admin.set_offsets(group, {first: 1})
    assert admin.committed_offsets(group)[first] == 1
    lag = admin.lag(group)[first]
    assert (lag.lag, lag.waiting_since_ms) == (2, 2_000)
    admin.delete_offsets(group, topic)
    assert admin.committed_offsets(group) == {}
    admin.delete_groups(group, missing_ok=True)
    assert group not in [each.group_id for each in admin.list_groups()]
    with pytest.raises(GroupIdNotFound, match=f"group {group} does not exist"):
        admin.describe_group(group)


def test_a_transaction_is_seen_and_aborted(
    admin: semel.Admin, topic: str, semel_broker: Broker
) -> None:
    name = f"id-of-{topic}"
    with pytest.raises(TransactionalIdNotFound, match=name):
        admin.abort_transaction(name)
    producer = semel.Producer(semel_broker.bootstrap_servers, transactional_id=name)
    producer.begin_transaction()
    producer.send(topic, b"never", partition=0)
    producer.flush()
    assert name in [each.transactional_id for each in admin.list_transactions(only_open=True)]
    assert admin.describe_transaction(name).is_open
    assert admin.hanging_transactions(topic) == []
    assert admin.end_offsets(topic, isolation="read_uncommitted") != admin.end_offsets(topic)
    assert admin.abort_transaction(name).partitions == {TopicPartition(topic, 0)}
    with pytest.raises(InvalidTransactionState, match="has no transaction open"):
        admin.abort_transaction(name)
    producer.close()


def test_the_asynchronous_face_does_the_same(semel_broker: Broker) -> None:
    async def work() -> list[str]:
        async with semel.AsyncAdmin(semel_broker.bootstrap_servers) as admin:
            await admin.create_topics("admin-async")
            described = await admin.describe_cluster()
            assert described.controller_id in described.brokers
            found = await admin.list_topics("admin-async")
        with pytest.raises(NotInOrder, match="closed"):
            await admin.list_topics()
        return found

    assert asyncio.run(work()) == ["admin-async"]


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda admin: admin.create_topics("no spaces"), InvalidTopic, "no spaces"),
        (lambda admin: admin.create_topics("ok", partitions=0), RequestError, "ok"),
        (lambda admin: admin.describe_topics("none-such"), UnknownTopicOrPartition, "none-such"),
        (lambda admin: admin.list_topics("("), ConfigError, "not a regular expression"),
        (lambda admin: admin.end_offsets("none-such"), UnknownTopicOrPartition, "none-such"),
        (lambda admin: admin.end_offsets("ok", isolation="no"), ConfigError, "read_committed"),
        (lambda admin: admin.offsets_at("ok", "now"), TypeError, "datetime"),
        (lambda admin: admin.set_offsets("g", {("ok", 0): -1}), ConfigError, "negative"),
        (
            lambda admin: admin.describe_configs("topik", "x"),
            ConfigError,
            "broker, topic and group",
        ),
        (lambda admin: admin.alter_configs("topic", "ok", {}), ConfigError, "nothing to change"),
        (lambda admin: admin.delete_groups("none-such"), GroupIdNotFound, "none-such"),
    ],
)
def test_what_is_wrong_is_said(
    admin: semel.Admin,
    call: object,
    error: type[Exception],
    sentence: str,
) -> None:
    assert callable(call)
    with pytest.raises(error, match=sentence):
        call(admin)
    assert admin.list_topics("ok|no spaces") == []


def test_options_and_servers_are_checked() -> None:
    with pytest.raises(ConfigError, match="did you mean 'request_timeout_ms'"):
        semel.Admin("h:1", request_timeout=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="must be positive"):
        semel.Admin("h:1", request_timeout_ms=0)
    with pytest.raises(ConfigError, match="not an address"):
        semel.Admin("h:port")
    admin = semel.Admin("127.0.0.1:9", request_timeout_ms=500)
    with admin, pytest.raises(NetworkException, match=r"127\.0\.0\.1:9"):
        admin.list_topics()
    with pytest.raises(NotInOrder, match="the admin is closed"):
        admin.list_topics()

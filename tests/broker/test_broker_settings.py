"""Settings of a broker, shown with where they come from, and changed while it runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semel.broker.config import about_settings
from semel.records.records import Record, encode_batch
from semel.testing import Broker
from semel.wire.messages.alter_configs import AlterableConfig as PlainConfig
from semel.wire.messages.alter_configs import AlterConfigsRequest
from semel.wire.messages.alter_configs import AlterConfigsResource as PlainResource
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from support.raw_client import RawClient, produce

TOPIC, BROKER, GROUP, CLIENT_METRICS = 2, 4, 32, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
LIST = 7
DYNAMIC, DYNAMIC_DEFAULT, STATIC, DEFAULT = 2, 3, 4, 5
NONE, MESSAGE_TOO_LARGE, INVALID_SESSION_TIMEOUT = 0, 10, 26
INVALID_CONFIG, INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT = 40, 42, 50
MEMBER_ID_REQUIRED = 79


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 3}) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client


def described(client: RawClient, name: str = "1", kind: int = BROKER, **options: Any) -> Any:
    wanted = DescribeConfigsResource(kind, name, options.pop("keys", None))
    request = DescribeConfigsRequest([wanted], **options)
    (result,) = client.call("describe_configs", 4, request).results
    assert result.error_code == NONE, result.error_message
    return {each.name: each for each in result.configs}


def changed(
    client: RawClient,
    setting: str,
    value: str | None,
    name: str = "1",
    operation: int = SET,
    kind: int = BROKER,
    only_check: bool = False,
) -> int:
    resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, operation, value)])
    request = IncrementalAlterConfigsRequest([resource], only_check)
    (answer,) = client.call("incremental_alter_configs", 1, request).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    assert bool(answer.error_message) == bool(answer.error_code)
    return int(answer.error_code)


def source_and_value(client: RawClient, setting: str) -> tuple[int, str]:
    found = described(client)[setting]
    return found.config_source, found.value


def test_all_settings_are_shown_with_their_sources(broker: Broker, client: RawClient) -> None:
    found = described(client, include_synonyms=True, include_documentation=True)
    assert set(about_settings()) < set(found)
    partitions = found["num.partitions"]
    assert (partitions.value, partitions.config_source, partitions.read_only) == (
        "3",
        STATIC,
        False,
    )
    assert [(each.value, each.source) for each in partitions.synonyms] == [
        ("3", STATIC),
        ("1", DEFAULT),
    ]
    assert partitions.documentation.startswith("Partitions of a topic")
    timeout = found["transaction.max.timeout.ms"]
    assert (timeout.config_source, timeout.config_type) == (DEFAULT, 3)
    assert found["journal.segment.bytes"].read_only
    here = f"PLAINTEXT://127.0.0.1:{broker.port}"
    assert found["listeners"].value == found["advertised.listeners"].value == here
    assert found["broker.id"].value == found["node.id"].value == "1"
    assert found["inter.broker.protocol.version"].value.startswith("3.8")
    assert found["log.dirs"].read_only
    assert set(described(client, keys=["num.partitions"])) == {"num.partitions"}
    assert not described(client)["num.partitions"].synonyms


def test_a_layer_that_is_nearer_counts_and_gives_way_when_it_goes(client: RawClient) -> None:
    setting = "fetch.max.bytes"
    assert source_and_value(client, setting) == (DEFAULT, str(8 * 2**20))
    assert changed(client, setting, "5000", name="") == NONE
    assert source_and_value(client, setting) == (DYNAMIC_DEFAULT, "5000")
    assert changed(client, setting, "6000") == NONE
    assert source_and_value(client, setting) == (DYNAMIC, "6000")
    synonyms = described(client, include_synonyms=True)[setting].synonyms
    assert [(each.source, each.value) for each in synonyms] == [
        (DYNAMIC, "6000"),
        (DYNAMIC_DEFAULT, "5000"),
        (DEFAULT, str(8 * 2**20)),
    ]
    for_all = described(client, name="")
    assert {name: each.value for name, each in for_all.items()} == {setting: "5000"}
    assert changed(client, setting, None, operation=DELETE) == NONE
    assert source_and_value(client, setting) == (DYNAMIC_DEFAULT, "5000")
    assert changed(client, setting, None, name="", operation=DELETE) == NONE
    assert source_and_value(client, setting) == (DEFAULT, str(8 * 2**20))


def test_what_is_set_counts_at_once(client: RawClient) -> None:
    """One of each kind of reader: the catalogue, batches, groups and transactions."""
    assert changed(client, "num.partitions", "7") == NONE
    made = client.call("create_topics", 7, CreateTopicsRequest([CreatableTopic("t", -1, 1)]))
    assert made.topics[0].num_partitions == 7

    batch = encode_batch([Record(None, b"x" * 3_000, 1_000)])
    assert produce(client, "t", batch).error_code == NONE
    assert changed(client, "message.max.bytes", "2000") == NONE
    assert produce(client, "t", batch).error_code == MESSAGE_TOO_LARGE
    shown = described(client, "t", TOPIC, include_synonyms=True)["max.message.bytes"]
    assert (shown.value, shown.config_source) == ("2000", DYNAMIC)
    assert [each.name for each in shown.synonyms] == ["message.max.bytes"] * 2

    def joined() -> int:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest("g", 2_000, 2_000, "", None, "consumer", protocols)
        return int(client.call("join_group", 5, request).error_code)

    client.create_group_topic()
    assert joined() == INVALID_SESSION_TIMEOUT
    assert changed(client, "group.min.session.timeout.ms", "1000") == NONE
    assert joined() == MEMBER_ID_REQUIRED

    def initialised() -> int:
        request = InitProducerIdRequest("id", 50_000)
        return int(client.call("init_producer_id", 4, request).error_code)

    assert initialised() == NONE
    assert changed(client, "transaction.max.timeout.ms", "40000") == NONE
    assert initialised() == INVALID_TRANSACTION_TIMEOUT


def test_a_list_is_added_to_and_taken_from(client: RawClient) -> None:
    setting = "log.cleanup.policy"
    assert described(client)[setting].config_type == LIST
    assert changed(client, setting, "compact", operation=APPEND) == NONE
    assert source_and_value(client, setting) == (DYNAMIC, "delete,compact")
    client.create_topic("list")
    shown = described(client, "list", TOPIC)["cleanup.policy"]
    assert (shown.value, shown.config_source) == ("delete,compact", DYNAMIC)
    assert changed(client, setting, "delete", operation=SUBTRACT) == NONE
    assert source_and_value(client, setting) == (DYNAMIC, "compact")
    assert changed(client, setting, "shred", operation=APPEND) == INVALID_CONFIG


def test_what_was_set_outlives_the_broker(tmp_path: Path) -> None:
    with Broker(data=tmp_path, settings={"num.partitions": 3}) as broker:
        with RawClient(broker) as client:
            assert changed(client, "num.partitions", "7", name="") == NONE
            assert changed(client, "max.connections", "70") == NONE
        broker.kill()
        broker.start()
        with RawClient(broker) as client:
            assert source_and_value(client, "num.partitions") == (DYNAMIC_DEFAULT, "7")
            assert source_and_value(client, "max.connections") == (DYNAMIC, "70")
        # A clean stop leaves a checkpoint, and nothing to replay.
        broker.stop()
        broker.start()
        with RawClient(broker) as client:
            assert source_and_value(client, "num.partitions") == (DYNAMIC_DEFAULT, "7")
            assert source_and_value(client, "max.connections") == (DYNAMIC, "70")


def test_what_does_not_go_with_another_start_is_left_out(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, RawClient(broker) as client:
        assert changed(client, "message.max.bytes", "4000000") == NONE
    smaller = {"journal.segment.bytes": 8_000_000}
    with Broker(data=tmp_path, settings=smaller) as broker:
        assert "is left out" in broker.complaints()
        with RawClient(broker) as client:
            assert source_and_value(client, "message.max.bytes") == (DEFAULT, "1048588")


def test_all_of_a_layer_is_replaced_by_the_older_request(client: RawClient) -> None:
    assert changed(client, "max.connections", "70") == NONE
    resource = PlainResource(BROKER, "1", [PlainConfig("fetch.max.bytes", "5000")])
    for only_check in (True, False):
        request = AlterConfigsRequest([resource], only_check)
        (answer,) = client.call("alter_configs", 2, request).responses
        assert answer.error_code == NONE
        expected = (DYNAMIC, "70") if only_check else (DEFAULT, "10000")
        assert source_and_value(client, "max.connections") == expected
    assert source_and_value(client, "fetch.max.bytes") == (DYNAMIC, "5000")


@pytest.mark.parametrize(
    ("setting", "value", "name", "operation", "code"),
    [
        ("num.partition", "3", "1", SET, INVALID_CONFIG),
        ("num.partitions", "many", "1", SET, INVALID_CONFIG),
        ("num.partitions", "0", "", SET, INVALID_CONFIG),
        ("message.max.bytes", "1000000000", "1", SET, INVALID_CONFIG),
        ("num.partitions", "3", "2", SET, INVALID_REQUEST),
        ("num.partitions", "3", "one", SET, INVALID_REQUEST),
        ("num.partitions", None, "1", SET, INVALID_REQUEST),
        ("node.id", "3", "1", SET, INVALID_REQUEST),
        ("log.flush.interval.ms", "3", "1", SET, INVALID_REQUEST),
        ("advertised.listeners", "a:1", "1", SET, INVALID_REQUEST),
        ("num.partitions", "3", "1", APPEND, INVALID_CONFIG),
    ],
)
def test_a_bad_change_changes_nothing(
    client: RawClient, setting: str, value: str | None, name: str, operation: int, code: int
) -> None:
    before = {each.name: each.value for each in described(client).values()}
    assert changed(client, setting, value, name, operation) == code
    assert {each.name: each.value for each in described(client).values()} == before


def test_a_check_changes_nothing(client: RawClient) -> None:
    assert changed(client, "num.partitions", "9", only_check=True) == NONE
    assert source_and_value(client, "num.partitions") == (STATIC, "3")


@pytest.mark.parametrize("kind", [GROUP, CLIENT_METRICS])
def test_groups_and_client_metrics_have_no_settings(client: RawClient, kind: int) -> None:
    assert described(client, "anyone", kind) == {}
    assert (
        changed(client, "consumer.session.timeout.ms", "50000", "g", kind=kind) == INVALID_REQUEST
    )


def test_the_advertised_address_may_be_a_setting(tmp_path: Path) -> None:
    settings = {"advertised.listeners": "PLAINTEXT://broker.example:1234"}
    with Broker(settings=settings) as broker, RawClient(broker) as client:
        found = described(client)
        assert found["advertised.listeners"].value == "PLAINTEXT://broker.example:1234"
        assert found["listeners"].value == f"PLAINTEXT://127.0.0.1:{broker.port}"

"""Quotas are set, shown and dropped by Kafka's own calls (KIP-546), and checked as there."""

from collections.abc import Iterator
from typing import Any

import pytest

from semel.testing import Broker
from semel.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from semel.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from support.raw_client import RawClient

NONE, UNSUPPORTED_VERSION, INVALID_REQUEST = 0, 35, 42
EXACT, DEFAULT, SPECIFIED = range(3)

Names = dict[str, str | None]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        yield client
        gone = [
            EntryData(entry.entity, [OpData(value.key, 0.0, True) for value in entry.values])
            for entry in described(client).entries
        ]
        client.call("alter_client_quotas", 1, AlterClientQuotasRequest(gone))


def entry(names: Names, *operations: OpData, **values: float) -> EntryData:
    parts = [EntityData(kind, name) for kind, name in names.items()]
    return EntryData(parts, [*operations, *(OpData(*each) for each in values.items())])


def altered(
    client: RawClient, *entries: EntryData, version: int = 1, only_check: bool = False
) -> list[int]:
    request = AlterClientQuotasRequest([*entries], only_check)
    results = client.call("alter_client_quotas", version, request).entries
    assert [each.entity for each in results] == [each.entity for each in entries]
    assert all(bool(each.error_message) == bool(each.error_code) for each in results)
    return [each.error_code for each in results]


def described(client: RawClient, *parts: ComponentData, strict: bool = False) -> Any:
    request = DescribeClientQuotasRequest([*parts], strict)
    return client.call("describe_client_quotas", 1, request)


def shown(client: RawClient, *parts: ComponentData, strict: bool = False) -> list[Any]:
    response = described(client, *parts, strict=strict)
    assert (response.error_code, response.error_message) == (NONE, None)
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in response.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_shown_and_dropped(client: RawClient, version: int) -> None:
    ann: Names = {"user": "ann", "client-id": None}
    values = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    assert altered(client, entry(ann, **values), version=version) == [NONE]
    assert shown(client) == [(ann, values)]
    dropped = OpData("producer_byte_rate", 0.0, True)
    changed = entry(ann, dropped, request_percentage=50.0)
    assert altered(client, changed, version=version) == [NONE]
    assert shown(client) == [(ann, {"request_percentage": 50.0})]


def test_what_is_only_checked_changes_nothing(client: RawClient) -> None:
    good = entry({"user": "ann"}, producer_byte_rate=1.0)
    bad = entry({"user": "bob"}, producer_byte_rate=-1.0)
    assert altered(client, good, bad, only_check=True) == [NONE, INVALID_REQUEST]
    assert shown(client) == []


@pytest.mark.parametrize(
    "bad",
    [
        entry({}, producer_byte_rate=1.0),
        entry({"user": ""}, producer_byte_rate=1.0),
        entry({"group": "g"}, producer_byte_rate=1.0),
        entry({"user": "x", "ip": "10.0.0.1"}, producer_byte_rate=1.0),
        entry({"ip": "10.0.0.256"}, connection_creation_rate=1.0),
        entry({"ip": "10.0.0.1"}, producer_byte_rate=1.0),
        entry({"user": "x"}, connection_creation_rate=1.0),
        entry({"user": "x"}, unheard_of=1.0),
        entry({"user": "x"}, producer_byte_rate=0.5),
        entry({"user": "x"}, producer_byte_rate=float("nan")),
        entry({"user": "x"}, request_percentage=0.0),
        entry({"user": "x"}, OpData("request_percentage", 1.0), request_percentage=2.0),
        EntryData([EntityData("user", "x"), EntityData("user", "y")], [OpData("x", 1.0)]),
    ],
)
def test_what_cannot_be_taken_is_refused_and_others_are_not(
    client: RawClient, bad: EntryData
) -> None:
    good = entry({"user": "good"}, consumer_byte_rate=7.0)
    assert altered(client, bad, good) == [INVALID_REQUEST, NONE]
    assert shown(client) == [({"user": "good"}, {"consumer_byte_rate": 7.0})]


def test_an_entity_that_is_named_twice_is_changed_once(client: RawClient) -> None:
    first, second = (entry({"user": "x"}, producer_byte_rate=rate) for rate in (1.0, 2.0))
    assert altered(client, first, second) == [NONE, INVALID_REQUEST]
    assert shown(client) == [({"user": "x"}, {"producer_byte_rate": 1.0})]


def test_an_address_is_known_however_it_is_written(client: RawClient) -> None:
    assert altered(client, entry({"ip": "0:0::1"}, connection_creation_rate=1.0)) == [NONE]
    assert shown(client) == [({"ip": "::1"}, {"connection_creation_rate": 1.0})]


ALL: list[Names] = [
    {"user": "ann"},
    {"user": None},
    {"user": "ann", "client-id": "app"},
    {"user": "ann", "client-id": None},
    {"client-id": "app"},
    {"ip": None},
    {"ip": "10.0.0.1"},
]


@pytest.mark.parametrize(
    ("parts", "strict", "found"),
    [
        ([], False, ALL),
        ([], True, []),
        ([ComponentData("user", EXACT, "ann")], True, [ALL[0]]),
        ([ComponentData("user", EXACT, "ann")], False, [ALL[0], ALL[2], ALL[3]]),
        ([ComponentData("user", DEFAULT)], False, [ALL[1]]),
        ([ComponentData("user", SPECIFIED)], True, [ALL[0], ALL[1]]),
        ([ComponentData("client-id", SPECIFIED)], False, [ALL[2], ALL[3], ALL[4]]),
        (
            [ComponentData("user", SPECIFIED), ComponentData("client-id", DEFAULT)],
            True,
            [ALL[3]],
        ),
        ([ComponentData("ip", SPECIFIED)], True, [ALL[5], ALL[6]]),
        ([ComponentData("ip", EXACT, "10.0.0.2")], True, []),
    ],
)
def test_filters_find_what_kafkas_find(
    client: RawClient, parts: list[ComponentData], strict: bool, found: list[Names]
) -> None:
    entries = [
        entry(names, connection_creation_rate=1.0)
        if "ip" in names
        else entry(names, producer_byte_rate=1.0)
        for names in ALL
    ]
    assert set(altered(client, *entries)) == {NONE}
    assert [names for names, _ in shown(client, *parts, strict=strict)] == found


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([ComponentData("", SPECIFIED)], INVALID_REQUEST),
        ([ComponentData("group", SPECIFIED)], UNSUPPORTED_VERSION),
        ([ComponentData("user", 3)], INVALID_REQUEST),
        ([ComponentData("user", EXACT)], INVALID_REQUEST),
        ([ComponentData("user", DEFAULT, "ann")], INVALID_REQUEST),
        ([ComponentData("user", DEFAULT), ComponentData("user", SPECIFIED)], INVALID_REQUEST),
        ([ComponentData("user", DEFAULT), ComponentData("ip", DEFAULT)], INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    client: RawClient, parts: list[ComponentData], code: int
) -> None:
    response = described(client, *parts)
    assert (response.error_code, response.entries) == (code, None)
    assert response.error_message


def test_the_log_has_a_quota_as_it_was_set(broker: Broker, client: RawClient) -> None:
    names: Names = {"user": "logged"}
    set_here = entry(names, producer_byte_rate=1_048_577, request_percentage=2.5)
    assert altered(client, set_here) == [NONE]
    (line,) = (each for each in broker.complaints().splitlines() if "users/logged" in each)
    assert "producer_byte_rate=1048577 " in line
    assert "request_percentage=2.5" in line

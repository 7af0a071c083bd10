"""Bootstrap lists as users write them."""

from collections.abc import Sequence
from typing import Any

import pytest

from semel.client.connecting.address import (
    BOOTSTRAP_SERVERS_VARIABLE,
    Address,
    hint_at_variable,
    parse_bootstrap_servers,
)
from semel.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("one:9093", [("one", 9093)]),
        ("one", [("one", 9092)]),
        (" one:1 , two:2,", [("one", 1), ("two", 2)]),
        ("[::1]:9094", [("::1", 9094)]),
        ("[::1]", [("::1", 9092)]),
        ("PLAINTEXT://one:9095", [("one", 9095)]),
    ],
)
def test_a_list_of_addresses_is_read(text: str, addresses: list[tuple[str, int]]) -> None:
    assert list(parse_bootstrap_servers(text)) == addresses


@pytest.mark.parametrize("text", ["", " , ", ":9092", "one:port", "one:0", "one:65536", "[::1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_bootstrap_servers(text)


@pytest.mark.parametrize("servers", [["one:1", "two:2,three"], ("one:1", "two:2", "three")])
def test_a_list_of_texts_is_read_as_one(servers: Sequence[str]) -> None:
    assert list(parse_bootstrap_servers(servers)) == [("one", 1), ("two", 2), ("three", 9092)]


@pytest.mark.parametrize("servers", [9092, b"one:1", ["one", 2], {"one": 1}])
def test_what_is_no_list_of_texts_is_shown_with_what_is_taken(servers: Any) -> None:
    with pytest.raises(ConfigError, match="it has to be text such as one:9092,two:9092") as refused:
        parse_bootstrap_servers(servers)
    assert f"bootstrap_servers is {servers!r}" in str(refused.value)


def test_an_ipv6_address_is_shown_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("one", 9092)) == "one:9092"


@pytest.mark.parametrize(
    ("named", "expected"),
    [("one:1,two", [("one", 1), ("two", 9092)]), ("", [("127.0.0.1", 9092)])],
)
def test_without_a_list_the_environment_is_asked_and_then_it_is_the_default(
    monkeypatch: pytest.MonkeyPatch, named: str, expected: list[tuple[str, int]]
) -> None:
    monkeypatch.setenv(BOOTSTRAP_SERVERS_VARIABLE, named)
    assert list(parse_bootstrap_servers(None)) == expected


def test_an_empty_list_is_refused_with_what_would_name_one() -> None:
    with pytest.raises(
        ConfigError, match=f"no bootstrap server is given.*{BOOTSTRAP_SERVERS_VARIABLE}"
    ):
        parse_bootstrap_servers("")


def test_the_variable_is_named_where_the_default_was_tried_for_want_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    default, other = [Address("127.0.0.1", 9092)], [Address("one", 9092)]
    monkeypatch.delenv(BOOTSTRAP_SERVERS_VARIABLE, raising=False)
    assert BOOTSTRAP_SERVERS_VARIABLE in hint_at_variable(default)
    assert hint_at_variable(other) == ""
    monkeypatch.setenv(BOOTSTRAP_SERVERS_VARIABLE, "127.0.0.1:9092")
    assert hint_at_variable(default) == ""

"""Bootstrap lists as users write them."""

import pytest

from semel.client.address import Address, parse_bootstrap_servers
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


def test_an_ipv6_address_is_shown_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("one", 9092)) == "one:9092"

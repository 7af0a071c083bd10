"""Where somebody comes from: every way of writing an address is the same one."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.access.access_list import AccessList
from semel.access.origin import counted_as, written
from semel.access.principal import Principal
from semel.access.rules import PatternType, Permission, Rule
from semel.wire.rights import Operation, ResourceType

GLOBAL = st.ip_addresses(v=6, network="2000::/3").map(str)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:a00:1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("", ""),
        ("broker.example", "broker.example"),
        ("no:address", "no:address"),
    ],
)
def test_a_network_of_ipv6_is_counted_as_one(host: str, origin: str) -> None:
    assert counted_as(host) == origin


@given(GLOBAL, st.integers(0, 2**64 - 1))
def test_whoever_has_one_address_has_all_of_its_network(host: str, other: int) -> None:
    base = int(ipaddress.IPv6Address(host)) >> 64 << 64
    assert counted_as(host) == counted_as(str(ipaddress.IPv6Address(base + other)))
    beside = ipaddress.IPv6Address((base + 2**64) % 2**128)
    assert counted_as(str(beside)) != counted_as(host)


@given(st.ip_addresses(v=6, network="::ffff:0:0/96") | st.ip_addresses())
def test_an_address_has_one_way_of_writing_it(address: ipaddress.IPv4Address) -> None:
    long = address.exploded.upper()
    assert written(long) == written(str(address)) == written(written(long))


def test_a_rule_counts_for_an_address_however_it_is_written() -> None:
    ana = Principal("User", "ana")
    for in_rule, host in (
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
    ):
        rule = Rule(
            ResourceType.TOPIC,
            "t",
            PatternType.LITERAL,
            ana,
            in_rule,
            Operation.READ,
            Permission.DENY,
        )
        rules = AccessList([rule])
        right = (ana, host, ResourceType.TOPIC, "t")
        everything = rule._replace(host="*", permission=Permission.ALLOW)
        rules.add([everything])
        assert not rules.allowed(*right) >> Operation.READ & 1
        rules.remove([rule])
        assert rules.allowed(*right) >> Operation.READ & 1

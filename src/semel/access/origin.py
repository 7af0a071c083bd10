"""Where somebody comes from: how an address is written, and with whom it is counted."""

import ipaddress
from typing import Final

_NETWORK_BITS: Final = 64
"""Who has one address of IPv6 has a network of this size at least, and so 2^64 of them."""


def written(host: str) -> str:
    """As every other way of writing this address; what is no address stays as it is."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)


def counted_as(host: str) -> str:
    """The address, or the network of it that one customer has."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_link_local or address.is_loopback:
        # All of a cable have that one.
        return str(address)
    return str(ipaddress.IPv6Network((int(address), _NETWORK_BITS), strict=False))

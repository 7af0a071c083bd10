"""The workers of one machine, as each of them knows the others, and where clients find them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from semel.broker.endpoints import Address

Advertised = Mapping[str, Address]
"""By the names of listeners. An empty host is the one that the client has found this machine by."""

NOT_ADVERTISED: Final[Advertised] = MappingProxyType({})
"""Clients find a broker where they came to it."""


class Neighbour(NamedTuple):
    """A worker of this machine. One that has died is started again, at the same address."""

    node_id: int
    host: str
    """Where other workers reach it."""
    port: int
    advertised: Advertised = NOT_ADVERTISED
    """Where clients find it."""

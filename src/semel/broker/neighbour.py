"""Where clients find a broker, and the other workers of this machine, as all know each other."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from semel.broker.endpoints import Address

Advertised = Mapping[str, Address]
"""By the names of listeners. An empty host is the one that the client has found this machine by."""

NOT_ADVERTISED: Final[Advertised] = MappingProxyType({})
"""Clients find a broker where they came to it."""


class Neighbour(NamedTuple):
    """It is always there, or will be again."""

    node_id: int
    host: str
    """Where other workers reach it."""
    port: int
    advertised: Advertised = NOT_ADVERTISED
    """Where clients find it."""

"""Who leads a lane that others can take: what it says of itself, and what is heard of it."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from semel.types import Term

FIRST_LEVEL: Final = 1
ACCESS_LEVEL: Final = 3
"""From which on lane 0 says who may come in."""


Listeners = tuple[tuple[str, str, int], ...]
"""Name, host and port of each: where clients find a node, by the listener that they come to. A
version that knew of one alone says none."""

NO_LISTENERS: Final[Mapping[int, Listeners]] = MappingProxyType({})
"""By the ids of nodes."""

StoredListener = tuple[int, str, str, int]
"""Id of the node, and name, host and port of its listener."""


def stored_listeners(
    listeners: Mapping[int, Listeners], but: Collection[int] = ()
) -> tuple[StoredListener, ...]:
    return tuple(
        (node_id, *each)
        for node_id in sorted(listeners)
        if node_id not in but
        for each in listeners[node_id]
    )


class Leader(NamedTuple):
    """Says who it is, and which cluster the lane belongs to."""

    cluster_id: bytes
    node_id: int
    host: str
    port: int
    level: int = FIRST_LEVEL
    """What it can write. A cluster that begins with it begins there."""
    listeners: Listeners = ()


class NodeAddress(NamedTuple):
    """Where other nodes find a node; and clients, if it says of no listener where that is."""

    node_id: int
    host: str
    port: int


class LedBy(NamedTuple):
    """Who leads, by what it has said itself."""

    epoch: Term
    node_id: int
    host: str
    port: int

    @property
    def address(self) -> NodeAddress:
        return NodeAddress(self.node_id, self.host, self.port)

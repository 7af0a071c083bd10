"""Who leads a lane that others can take: what it says of itself, and what is heard of it."""

from typing import Final, NamedTuple

from semel.types import Term

FIRST_LEVEL: Final = 1
ACCESS_LEVEL: Final = 3
"""From which on lane 0 says who may come in."""


class Leader(NamedTuple):
    """Says who it is, and which cluster the lane belongs to."""

    cluster_id: bytes
    node_id: int
    host: str
    port: int
    level: int = FIRST_LEVEL
    """What it can write. A cluster that begins with it begins there."""


class NodeAddress(NamedTuple):
    """Where clients and other nodes find a node."""

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

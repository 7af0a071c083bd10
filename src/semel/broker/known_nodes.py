"""Nodes that clients are told of: those that live, and for a while those that have gone.

A client that hears of a node no more may forget it in the middle of a request. librdkafka then
waits for ever for a coordinator that it still remembers by name (its issue 5511). It asks anew for
coordinators after 15 minutes, if nothing told it to before; until then a node that has gone is
named, as one that cannot be reached.
"""

from collections.abc import Iterable
from typing import Final

from semel.lane.leader import NodeAddress

NAMED_MS: Final = 15 * 60 * 1000


class KnownNodes:
    def __init__(self) -> None:
        self._seen: dict[int, tuple[NodeAddress, int]] = {}

    def see(self, nodes: Iterable[NodeAddress], now_ms: int) -> None:
        """These live now; a node that has come back has the address it has now."""
        for node in nodes:
            self._seen[node.node_id] = (node, now_ms)

    def named(self, now_ms: int) -> list[NodeAddress]:
        """By their ids."""
        for node_id, (_, seen_ms) in list(self._seen.items()):
            if now_ms - seen_ms > NAMED_MS:
                del self._seen[node_id]
        return [self._seen[node_id][0] for node_id in sorted(self._seen)]

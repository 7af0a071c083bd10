"""Nodes on a store, of which one leads, or each a part of several lanes."""

import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from chaos.subject import Host
from semel.testing.cluster import Cluster

PAUSE_S: Final = 0.05

Deed = Callable[[Cluster, int], None]


def hold(cluster: Cluster, node_id: int) -> None:
    """What it sends and what is sent to it arrives late."""
    cluster[node_id].network.hold()
    cluster[node_id].store_link.hold()


MOVE: Final = "move"
DEEDS: Final[dict[str, Deed]] = {
    "kill": Cluster.kill,
    "freeze": Cluster.freeze,
    "cut off": Cluster.cut_off,
    "hold": hold,
    "cut off from the store": Cluster.cut_off_from_store,
    "stop": Cluster.stop,
}


class Nodes:
    deeds: Sequence[str] = (*DEEDS, MOVE)

    def __init__(self, cluster: Cluster, lane_count: int = 1) -> None:
        self._cluster = cluster
        self._lane_count = lane_count
        self.bootstrap_servers = cluster.bootstrap_servers
        self.hosts = [Host(node_id, cluster[node_id].port) for node_id in cluster.nodes]

    @property
    def asked_port(self) -> int:
        return self._cluster[self._cluster.leader].port

    def strike(self, deed: str, random: Random) -> str:
        """Whoever leads a lane is hit."""
        cluster = self._cluster
        lane = random.randrange(self._lane_count)
        node_id = self._leaders()[lane]
        if deed != MOVE:
            DEEDS[deed](cluster, node_id)
        else:
            others = (each for each in cluster.nodes.values() if each.node_id != node_id)
            cluster.move(next(each.node_id for each in others if each.is_heard), lane)
        return f"node {node_id}" if self._lane_count == 1 else f"node {node_id}, of lane {lane}"

    def _leaders(self) -> dict[int, int]:
        return {0: self._cluster.leader} if self._lane_count == 1 else self._cluster.lanes

    def until_led(self) -> str:
        while True:
            leaders = self._leaders()
            if all(self._cluster[node_id].is_heard for node_id in leaders.values()):
                return " ".join(str(leaders[lane]) for lane in sorted(leaders))
            threading.Event().wait(PAUSE_S)

    def mend(self) -> None:
        self._cluster.mend()

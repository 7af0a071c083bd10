"""Where a run takes place: one broker, or three nodes on a store; and who is struck there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Final, Protocol

from examples.demo.application import Application
from semel.testing import Broker, Cluster

TAKEOVERS: Final = 4
DEEDS: Final = ("killed", "frozen", "stopped", "moved")
AWAY_S: Final = 3.0
"""So long a node is frozen, or gone, while another leads."""


class Stage(Protocol):
    victims: tuple[str, ...]

    @property
    def bootstrap_servers(self) -> str: ...

    def strike(self, victim: str, application: Application) -> str:
        """What was done, in a few words."""


class OneBroker:
    victims: tuple[str, ...] = ("workers", "broker", "driver")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    def strike(self, victim: str, application: Application) -> str:
        if victim == "workers":
            application.kill_workers()
        elif victim == "driver":
            application.kill_driver()
        else:
            self._broker.kill()
            self._broker.start()
        return f"kill -9 the {victim}"


class ThreeNodes:
    """Whoever leads is killed and frozen in turns, and is back when another has led for a while.
    More often than that it is also stopped, and asked to let another lead."""

    def __init__(self, cluster: Cluster, takeovers: int = TAKEOVERS) -> None:
        deeds = ("killed", "frozen") if takeovers <= TAKEOVERS else DEEDS
        self.victims = tuple(islice(cycle(deeds), takeovers))
        self._cluster = cluster
        self._timers: list[threading.Timer] = []

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def strike(self, victim: str, application: Application) -> str:
        self.finish()
        leader = self._cluster.leader
        if victim == "killed":
            self._cluster.kill(leader)
            self._later(lambda: self._cluster.start(leader))
            return f"kill -9 node {leader}, which leads"
        if victim == "stopped":
            self._cluster.stop(leader)
            self._later(lambda: self._cluster.start(leader))
            return f"stop node {leader}, which leads"
        if victim == "moved":
            other = next(number for number in self._cluster.nodes if number != leader)
            self._cluster.move(other)
            return f"let node {other} lead instead of node {leader}"
        self._cluster.freeze(leader)
        self._later(lambda: self._cluster.resume(leader))
        return f"freeze node {leader}, which leads"

    def _later(self, deed: Callable[[], None]) -> None:
        timer = threading.Timer(AWAY_S, deed)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def finish(self) -> None:
        """Return when all who were away are back."""
        for timer in self._timers:
            timer.join()


@contextmanager
def one_broker(folder: Path) -> Iterator[Stage]:
    with Broker(data=folder / "log") as broker:
        yield OneBroker(broker)


@contextmanager
def three_nodes(folder: Path, store: str = "", takeovers: int = TAKEOVERS) -> Iterator[Stage]:
    """Under a path of its own in that store, or on a folder that is gone afterwards."""
    path = f"{store.rstrip('/')}/{folder.parent.name}-{folder.name}" if store else ""
    with Cluster(nodes=3, store=path) as cluster:
        stage = ThreeNodes(cluster, takeovers)
        try:
            yield stage
        finally:
            stage.finish()

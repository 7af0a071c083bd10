"""Where a run takes place: one broker, several workers, three nodes on a store; whom it hits."""

import os
import signal
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


class _Timed:
    """What was done to somebody is undone after a while."""

    def __init__(self) -> None:
        self._timers: list[threading.Timer] = []

    def later(self, deed: Callable[[], None]) -> None:
        timer = threading.Timer(AWAY_S, deed)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def finish(self) -> None:
        """Return when all who were away are back."""
        for timer in self._timers:
            timer.join()


class SeveralWorkers(_Timed):
    """Each in its turn is killed, and started again by its parent, or frozen."""

    def __init__(self, broker: Broker, count: int, strikes: int) -> None:
        super().__init__()
        self.victims = tuple(islice(cycle(("killed", "frozen", "killed")), strikes))
        self._broker = broker
        self._next = cycle(range(1, count + 1))

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    def strike(self, victim: str, application: Application) -> str:
        self.finish()
        node_id = next(self._next)
        if victim == "killed":
            self._broker.kill_worker(node_id)
            return f"kill -9 worker {node_id}"
        process_id = self._broker.worker_process_ids[node_id]
        os.kill(process_id, signal.SIGSTOP)
        self.later(lambda: os.kill(process_id, signal.SIGCONT))
        return f"freeze worker {node_id}"


class ThreeNodes(_Timed):
    """Whoever leads is killed and frozen in turns, and is back when another has led for a while.
    More often than that it is also stopped, and asked to let another lead."""

    def __init__(self, cluster: Cluster, takeovers: int = TAKEOVERS, lanes: int = 1) -> None:
        super().__init__()
        deeds = ("killed", "frozen") if takeovers <= TAKEOVERS else DEEDS
        self.victims = tuple(islice(cycle(deeds), takeovers))
        self._cluster = cluster
        self._next_lane = cycle(range(lanes))
        self._lanes = lanes

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def strike(self, victim: str, application: Application) -> str:
        self.finish()
        lane = next(self._next_lane)
        leader = self._cluster.leader if self._lanes == 1 else self._cluster.lanes[lane]
        if victim == "killed":
            self._cluster.kill(leader)
            self.later(lambda: self._cluster.start(leader))
            return f"kill -9 node {leader}, which leads"
        if victim == "stopped":
            self._cluster.stop(leader)
            self.later(lambda: self._cluster.start(leader))
            return f"stop node {leader}, which leads"
        if victim == "moved":
            other = next(number for number in self._cluster.nodes if number != leader)
            self._cluster.move(other, lane)
            return f"let node {other} lead instead of node {leader}"
        self._cluster.freeze(leader)
        self.later(lambda: self._cluster.resume(leader))
        return f"freeze node {leader}, which leads"


@contextmanager
def one_broker(folder: Path) -> Iterator[Stage]:
    with Broker(data=folder / "log") as broker:
        yield OneBroker(broker)


@contextmanager
def several_workers(folder: Path, count: int, takeovers: int = TAKEOVERS) -> Iterator[Stage]:
    with Broker(data=folder / "log", workers=count) as broker:
        stage = SeveralWorkers(broker, count, takeovers)
        try:
            yield stage
        finally:
            stage.finish()


@contextmanager
def three_nodes(
    folder: Path, store: str = "", takeovers: int = TAKEOVERS, lanes: int = 1
) -> Iterator[Stage]:
    """Under a path of its own in that store, or on a folder that is gone afterwards."""
    path = f"{store.rstrip('/')}/{folder.parent.name}-{folder.name}" if store else ""
    with Cluster(nodes=3, store=path, lanes=lanes) as cluster:
        stage = ThreeNodes(cluster, takeovers, lanes)
        try:
            yield stage
        finally:
            stage.finish()

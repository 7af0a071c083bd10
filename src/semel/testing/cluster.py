"""A cluster of real nodes for tests, which are killed, frozen, moved and cut off by their ids."""

import asyncio
import contextlib
import http.client
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from semel.client.connecting.security_settings import as_security
from semel.cluster import format as cluster_format
from semel.cluster.channel import connecting
from semel.cluster.format import ClusterRefused
from semel.cluster.messages import Describe, Described, Move
from semel.cluster.opening import ClusterSettings, opened, stores
from semel.cluster.outside import Outside
from semel.errors import ConfigError, SemelError
from semel.security import PLAINTEXT, SecurityLike
from semel.store.settings import StoreSettings
from semel.testing.asking import NoAnswer, ask
from semel.testing.broker import Broker
from semel.testing.child import Child
from semel.testing.proxy import HOST, Course, Gate, Proxies
from semel.wire.messages.metadata import MetadataRequest
from semel.world import SystemClock, SystemRandomness

DETECTION_MS: Final = 1_000
AGREEMENT_S_MAX: Final = 60.0
MOVING_S_MAX: Final = 15.0
BUCKET: Final = "bucket"
OFFSETS_PARTITIONS: Final = 50
TRANSACTIONS_PARTITIONS: Final = 50
_ASKED_S_MAX: Final = 2.0
_PAUSE_S: Final = 0.02
_SERVER_READY: Final = re.compile(r"The fault server is ready on .+:(\d+)\n")


class NoLeader(SemelError):
    """The nodes did not agree on one of them in time."""


class Node(Broker):
    """One process of the cluster. Its cluster keeps track of what was done to it."""

    def __init__(
        self,
        node_id: int,
        places: Sequence[str],
        settings: Mapping[str, object],
        environment: Mapping[str, str],
        network: Gate | None = None,
        store_link: Gate | None = None,
    ) -> None:
        advertised = () if network is None else ("--advertise", network.address)
        super().__init__(
            settings=settings,
            arguments=(*places, "--node-id", str(node_id), *advertised),
        )
        self._environment = environment
        self.node_id = node_id
        self.is_frozen = False
        self._network = network
        self._store_link = store_link

    @property
    def address(self) -> str:
        """At which clients find it, HOST:PORT."""
        return f"{HOST}:{self.port}" if self._network is None else self._network.address

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    @property
    def network(self) -> Gate:
        """Between the node and all who ask it."""
        assert self._network is not None, "this needs Cluster(proxied=True)"
        return self._network

    @property
    def store_link(self) -> Gate:
        """Between the node and the store."""
        assert self._store_link is not None, "this needs Cluster(proxied=True)"
        return self._store_link

    @property
    def is_heard(self) -> bool:
        """Whether it runs, and both its clients and the store can hear from it."""
        gates = (self._network, self._store_link)
        is_open = all(gate is None or gate.course is Course.PASS for gate in gates)
        return self.is_running and not self.is_frozen and is_open

    def await_ready(self) -> None:
        super().await_ready()
        self.is_frozen = False
        if self._network is not None:
            self._network.lead_to(self.port)

    def freeze(self) -> None:
        """Stop it where it stands, as SIGSTOP does; its connections stay open."""
        self.pause()

    def pause(self) -> None:
        super().pause()
        self.is_frozen = True

    def resume(self) -> None:
        super().resume()
        self.is_frozen = False

    def _ended(self) -> None:
        # What it has stored is the cluster's.
        self._folder = None
        super()._ended()


class Cluster:
    """Starts with the `with` block; when that is entered, one of the nodes leads.

    The nodes share a folder as their store, which is gone afterwards, unless `store` names another
    in which there is no cluster yet, and `journal` where its slots lie. With `proxied` they share a
    server that speaks S3, and there is a proxy before each node and between each node and the
    store: nodes can be cut off then, and the store can fail (`weather`).
    """

    def __init__(
        self,
        nodes: int = 3,
        *,
        detection_ms: int = DETECTION_MS,
        settings: Mapping[str, object] | None = None,
        store: str = "",
        journal: str | None = None,
        proxied: bool = False,
        lanes: int = 1,
        security: SecurityLike = PLAINTEXT,
    ) -> None:
        """Whoever leads and is silent for `detection_ms` is followed by another. Topics are spread
        over the `lanes`, which the nodes lead between them. With `security` they are steered where
        their listener for each other asks for TLS."""
        for name, count in (("nodes", nodes), ("lanes", lanes)):
            if count < 1:
                raise ConfigError(f"{name} is {count}: a cluster has at least one")
        self._count = nodes
        self._settings = {"cluster.detection.ms": detection_ms, **(settings or {})}
        self._is_proxied = proxied
        self._lane_count = lanes
        self._connect = connecting(as_security(security))
        self.nodes: dict[int, Node] = {}
        """By id, from 1 on."""
        self.store = store
        """The URL of the store."""
        self.journal = journal
        self._settings_of_stores: ClusterSettings | None = None
        self._server_port = 0
        self._stack = ExitStack()

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes."""
        return ",".join(node.address for node in self.nodes.values())

    @property
    def leader(self) -> int:
        """The node that leads, once all that can be heard say so. Raises NoLeader after a minute.

        Nodes that were killed, stopped, frozen or cut off are not asked, and are not waited for.
        """
        clock = SystemClock()
        until_ms = clock.monotonic_ms() + AGREEMENT_S_MAX * 1000
        told: dict[int, int | None] = {}
        while clock.monotonic_ms() < until_ms:
            told = {
                node_id: _leader_told_by(node.port)
                for node_id, node in self.nodes.items()
                if node.is_heard
            }
            agreed = set(told.values())
            if len(agreed) == 1 and (leader := agreed.pop()) in told:
                assert leader is not None
                return leader
            threading.Event().wait(_PAUSE_S)
        raise NoLeader(f"who leads, as each node says: {told}")

    @property
    def lanes(self) -> dict[int, int]:
        """The node that leads each lane, once all lanes are led. Raises NoLeader after a minute."""
        assert self._settings_of_stores is not None, "the cluster has not begun"
        settings, found = self._settings_of_stores, dict[int, int]()

        async def look() -> None:
            clock = SystemClock()
            until_ms = clock.monotonic_ms() + AGREEMENT_S_MAX * 1000
            async with opened(settings) as (store, made):
                while len(found) < self._lane_count:
                    if clock.monotonic_ms() >= until_ms:
                        raise NoLeader(f"of {self._lane_count} lanes are led: {found}")
                    outside = await Outside.of(store, made, connect=self._connect)
                    with contextlib.suppress(ClusterRefused):
                        told = await outside.ask_leader(Describe(), _ASKED_S_MAX)
                        assert isinstance(told, Described)
                        found.clear()
                        found[0] = told.node_id
                        for each in told.lanes:
                            if each.node_id is not None:
                                found[each.lane] = each.node_id
                    await asyncio.sleep(_PAUSE_S)

        _run_beside(look)
        return found

    # By id, as in scripts

    def kill(self, node_id: int) -> None:
        """As `kill -9`."""
        self.nodes[node_id].kill()

    def stop(self, node_id: int) -> None:
        """As SIGTERM: it hands over and ends."""
        self.nodes[node_id].stop()

    def start(self, node_id: int) -> None:
        """Again, at the same address."""
        self.nodes[node_id].start()

    def restart(self, node_id: int) -> None:
        self.nodes[node_id].restart()

    def freeze(self, node_id: int) -> None:
        """As SIGSTOP: it stands still, and its connections stay open."""
        self.nodes[node_id].freeze()

    def resume(self, node_id: int) -> None:
        self.nodes[node_id].resume()

    def move(self, node_id: int, lane: int = 0) -> None:
        """As `semel cluster move`: when it returns, this node leads, and nothing was aborted.

        One that was just started is waited for. Raises ClusterRefused if it cannot lead.
        """
        assert self._settings_of_stores is not None, "the cluster has not begun"
        assert self.nodes[node_id].is_heard, f"node {node_id} does not run"
        settings = self._settings_of_stores

        async def move() -> None:
            clock = SystemClock()
            until_ms = clock.monotonic_ms() + MOVING_S_MAX * 1000
            async with opened(settings) as (store, made):
                while True:
                    outside = await Outside.of(store, made, connect=self._connect)
                    try:
                        await outside.ask_leader(Move(node_id, lane), AGREEMENT_S_MAX)
                    except ClusterRefused:
                        if clock.monotonic_ms() >= until_ms:
                            raise
                        await asyncio.sleep(_PAUSE_S)
                    else:
                        return

        _run_beside(move)

    def cut_off(self, node_id: int) -> None:
        """From everybody: clients, other nodes and the store."""
        self.nodes[node_id].network.cut()
        self.nodes[node_id].store_link.cut()

    def cut_off_from_store(self, node_id: int) -> None:
        """Clients can still ask it."""
        self.nodes[node_id].store_link.cut()

    def reconnect(self, node_id: int) -> None:
        """To all that it was cut off from, and what was held goes on."""
        self.nodes[node_id].network.let_pass()
        self.nodes[node_id].store_link.let_pass()

    def mend(self) -> None:
        """Whoever was stopped or killed runs again, and nobody is frozen or cut off."""
        for node in self.nodes.values():
            if self._is_proxied:
                self.reconnect(node.node_id)
            if node.is_frozen:
                node.resume()
        away = [node for node in self.nodes.values() if not node.is_running]
        for node in away:
            node.launch()
        for node in away:
            node.await_ready()

    def weather(self, **changes: object) -> dict[str, Any]:
        """Have the store's server fail, as `semel.testing.fault_server` can; its counts."""
        assert self._is_proxied, "this needs Cluster(proxied=True)"
        connection = http.client.HTTPConnection(HOST, self._server_port, timeout=30)
        try:
            connection.request("POST", "/-/control", json.dumps(changes))
            answer = connection.getresponse()
            said = answer.read()
            assert answer.status == 200, said
            counted: dict[str, Any] = json.loads(said)
            return counted
        finally:
            connection.close()

    # From the beginning to the end

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            # Nodes that are killed could not tidy up behind themselves.
            folder = Path(tempfile.mkdtemp(prefix="semel-cluster-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            if self._is_proxied:
                self._begin_with_proxies(stack, folder)
            else:
                self._begin_on_store(folder)
            for node in self.nodes.values():
                stack.callback(_end, node)
                node.launch()
            for node in self.nodes.values():
                node.await_ready()
            self.leader  # noqa: B018 - waited for.
            if self._lane_count > 1:
                self.lanes  # noqa: B018 - as well.
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _begin_on_store(self, folder: Path) -> None:
        if not self.store:
            self.store = f"file://{folder / 'store'}"
        self._create(ClusterSettings.of(self.store, journal=self.journal, is_ephemeral=True))
        places = ["--store", self.store]
        if self.journal is not None:
            places += ["--journal", self.journal]
        for node_id in range(1, self._count + 1):
            self.nodes[node_id] = Node(node_id, places, self._settings, {"TMPDIR": str(folder)})

    def _create(self, settings: ClusterSettings) -> None:
        self._settings_of_stores = settings
        _create(settings, self._lane_count)

    def _begin_with_proxies(self, stack: ExitStack, folder: Path) -> None:
        server = Child(
            ["-m", "semel.testing.fault_server", "--bucket", BUCKET, "--stop-with-stdin"]
        )
        stack.callback(server.stop)
        proxies = stack.enter_context(Proxies())
        ready = _SERVER_READY.fullmatch(server.line())
        assert ready is not None, server.last_words()
        self._server_port = int(ready[1])
        self.store = f"s3://{BUCKET}/cluster"
        key = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1"}
        endpoint = f"http://{HOST}:{self._server_port}"
        self._create(ClusterSettings(StoreSettings(self.store, endpoint=endpoint, options=key)))
        for node_id in range(1, self._count + 1):
            link = proxies.open(self._server_port)
            environment = {
                "TMPDIR": str(folder),
                "AWS_ENDPOINT_URL": f"http://{link.address}",
                **{f"AWS_{name.upper()}": value for name, value in key.items()},
            }
            self.nodes[node_id] = Node(
                node_id,
                ["--store", self.store],
                self._settings,
                environment,
                proxies.open(),
                link,
            )


def _end(node: Node) -> None:
    """What it was doing is of no interest any more."""
    if node.is_running:
        node.kill()


def _create(settings: ClusterSettings, lane_count: int) -> None:
    async def create() -> None:
        async with stores(settings) as found:
            await cluster_format.create(
                found.store,
                SystemRandomness(),
                OFFSETS_PARTITIONS,
                TRANSACTIONS_PARTITIONS,
                found.journal,
                lane_count,
            )

    _run_beside(create)


def _run_beside(work: Any) -> None:
    """In a thread of its own, as a test may have a running loop in this one."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for.
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _leader_told_by(port: int) -> int | None:
    """None if it knows of none, or says nothing."""
    try:
        told = ask((HOST, port), "Metadata", 12, MetadataRequest([]), _ASKED_S_MAX)
    except NoAnswer:
        return None
    return None if told.controller_id < 0 else int(told.controller_id)

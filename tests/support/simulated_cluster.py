"""Nodes on one store in memory, in simulated time: to be killed, frozen, cut off and stopped."""

import asyncio
import contextlib
import inspect
import struct
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, NoReturn

from semel.broker.broker import Broker, Shared, Storage
from semel.broker.config import BrokerConfig
from semel.broker.connection import Connection
from semel.broker.lane_settings import lane_settings
from semel.cluster import format as cluster_format
from semel.cluster.channel import Ended, Received
from semel.cluster.format import ClusterFormat
from semel.cluster.levels import LEVELS, Levels
from semel.cluster.node import Node, slot_settings
from semel.cluster.silence import Timing
from semel.lane.leader import Leader
from semel.lane.view import LaneView
from semel.store.in_memory import Bucket, Chances, MemoryStore
from semel.verify.world.loop import (
    Process,
    SeededRandomness,
    SimulatedClock,
    SimulatedLoop,
    simulate,
)
from support.raw_client import decoded_reply, encoded, request_frame

TIMING = Timing(1.0)
CALM = Chances(latency_s_mean=0.01)
WAY_S = 0.001


class NotAnswered(Exception):
    """The connection was cut, or there is nobody."""


class _Transport(asyncio.Transport):
    def __init__(self, node: "SimulatedNode") -> None:
        super().__init__()
        self._node = node
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._received = b""
        self.awaited_count = 1
        """Replies that make an answer."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("client", 1), "sockname": (self._node.host, 9092)}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._received += data
        if not self.answer.done() and len(self.replies()) == self.awaited_count:
            self.answer.set_result(self.replies()[-1])

    def replies(self) -> list[bytes]:
        """Those that are whole."""
        found, at = [], 0
        while len(self._received) >= at + 4:
            (size,) = struct.unpack_from(">i", self._received, at)
            if len(self._received) < at + 4 + size:
                break
            found.append(self._received[at + 4 : at + 4 + size])
            at += 4 + size
        return found

    def abort(self) -> None:
        if not self.answer.done():
            self.answer.set_exception(NotAnswered(f"node {self._node.node_id} cut it off"))

    close = abort


class _Line(_Transport):
    """A connection from one node to another, as the one that has called it sees it."""

    def __init__(
        self, caller: "SimulatedNode", node: "SimulatedNode", received: Received, ended: Ended
    ) -> None:
        super().__init__(node)
        self._caller = caller
        self._on_bytes = received
        self._on_end = ended
        self.connection: Connection | None = None
        self._is_open = True

    def _there(self, node: "SimulatedNode", deed: Callable[[], None]) -> None:
        if self._is_open and node.process.is_alive:
            loop = asyncio.get_running_loop()
            loop.call_later(WAY_S, deed, context=node.process.context)

    def call(self, data: bytes) -> None:
        def arrive() -> None:
            if not self._node.is_reachable or not self._caller.is_reachable:
                return
            if self.connection is None:
                self.connection = self._node.broker.connection()
                self.connection.connection_made(self)
            if not self.connection.is_closing:
                self.connection.get_buffer(-1)[: len(data)] = data
                self.connection.buffer_updated(len(data))

        self._there(self._node, arrive)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        said = bytes(data)
        if self._node.is_reachable and self._caller.is_reachable:
            self._there(self._caller, lambda: self._on_bytes(said))

    def abort(self) -> None:
        self._there(self._caller, self._on_end)
        self._is_open = False

    close = abort


class _Writer:
    def __init__(self, line: _Line) -> None:
        self._line = line

    def write(self, data: bytes, /) -> None:
        self._line.call(data)

    @property
    def may_place(self) -> bool:
        return False

    def place(self, data: bytes, /) -> bool:
        raise AssertionError("nothing may be placed here")

    def close(self) -> None:
        self._line.abort()


class SimulatedNode:
    """One life of a node: a process of its own, and its own way to the store."""

    def __init__(
        self,
        cluster: "SimulatedCluster",
        node_id: int,
        life: int,
        host: str | None = None,
        levels: Levels = LEVELS,
    ) -> None:
        self.node_id = node_id
        self.host = host or f"node-{node_id}"
        seed = f"{cluster.seed} {node_id} {life}"
        self.store = MemoryStore(cluster.bucket, Random(seed), cluster.chances)
        self.process = Process(f"{self.host} {life}")
        self.error: BaseException | None = None
        self._cluster = cluster
        self.levels = levels
        self.node: Node
        self._randomness = SeededRandomness(seed)
        self._stopping = asyncio.Event()
        self._over = asyncio.Event()
        self._transports: list[_Transport] = []
        self._is_up = False
        self.is_reachable = True
        """For other nodes, and they for it."""
        self._config = BrokerConfig(
            node_id=node_id, offsets_topic_num_partitions=3, **cluster.settings
        )
        limits = slot_settings(TIMING).limits
        self.broker = Broker(
            self._config,
            (),
            Storage("store", lambda: (-1, -1)),
            SimulatedClock(asyncio.get_running_loop()),
            self._randomness,
            Shared(
                cluster.format.cluster_id,
                limits,
                TIMING.detection_s,
            ),
        )
        self.process.start(self._live())

    async def _live(self) -> None:
        format_ = self._cluster.format
        self.node = node = Node(
            self.store,
            format_,
            Leader(format_.cluster_id, self.node_id, self.host, 9092),
            TIMING,
            lane_settings(self._config),
            self._randomness,
            self.broker.host,
            self.connect,
            levels=self.levels,
        )
        try:
            async with asyncio.TaskGroup() as tasks:
                await self.broker.start(tasks)
                self._is_up = True
                running = tasks.create_task(node.run())
                await self._stopping.wait()
                await node.leave()
                self.broker.close()
                running.cancel()
                _end_tasks()
        except* _Stopped:
            await self.broker.stop()
            self._over.set()
        except* Exception as group:  # noqa: BLE001 - whoever waits for a leader hears of it.
            self.error = group

    async def connect(self, host: str, port: int, received: Received, ended: Ended) -> _Writer:
        for node in self._cluster.all_nodes:
            if node.host == host and node.process.is_alive and node._is_up:
                line = _Line(self, node, received, ended)
                node._transports.append(line)
                return _Writer(line)
        await asyncio.sleep(WAY_S)
        raise ConnectionRefusedError(host)

    async def until_over(self) -> None:
        """Return when it has stopped."""
        await self._over.wait()
        self.process.die()

    @property
    def leads(self) -> bool:
        """Lane 0."""
        return self.process.is_alive and self.broker.lanes.leads_catalogue

    def kill(self) -> None:
        self.process.die()
        self.store.is_cut = True
        for transport in tuple(self._transports):
            transport.abort()

    def freeze(self, duration_s: float) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        loop.freeze(self.process, duration_s)

    def stop(self) -> None:
        """As SIGTERM does."""
        self._stopping.set()

    async def ask(self, module: str, version: int, request: Any, timeout_s: float = 30.0) -> Any:
        """The response. Raises NotAnswered."""
        if not self.process.is_alive or not self._is_up:
            await asyncio.sleep(0.01)
            raise NotAnswered(f"node {self.node_id} does not listen")
        frame = request_frame(module, version, encoded(module, version, request))
        (reply,) = await self.ask_all([frame], timeout_s)
        return decoded_reply(module, version, reply)

    def open(self) -> "OpenConnection":
        """One that is accepted now."""
        return OpenConnection(self)

    async def ask_all(self, frames: list[bytes], timeout_s: float = 30.0) -> list[bytes]:
        """All at once, over one connection. Raises NotAnswered."""
        transport = _Transport(self)
        transport.awaited_count = len(frames)
        self._transports.append(transport)
        frame = b"".join(frames)

        def arrive() -> None:
            connection: Connection = self.broker.connection()
            connection.connection_made(transport)
            if transport.answer.done():
                return  # It has closed its door.
            left = memoryview(frame)
            while left:
                buffer = memoryview(connection.get_buffer(len(left)))
                size = min(len(buffer), len(left))
                buffer[:size] = left[:size]
                # It may not grow while there is a view of it.
                buffer.release()
                connection.buffer_updated(size)
                left = left[size:]

        asyncio.get_running_loop().call_soon(arrive, context=self.process.context)
        try:
            async with asyncio.timeout(timeout_s):
                await transport.answer
        except TimeoutError:
            raise NotAnswered(f"node {self.node_id} is silent") from None
        finally:
            self._transports.remove(transport)
        return transport.replies()


class OpenConnection:
    """To a node, over which something is asked once."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._transport = _Transport(node)
        self._connection = node.process.call(node.broker.connection)
        node.process.call(self._connection.connection_made, self._transport)

    async def ask(self, module: str, version: int, request: Any) -> Any:
        """The response. Raises NotAnswered."""
        frame = request_frame(module, version, encoded(module, version, request))

        def arrive() -> None:
            self._connection.get_buffer(-1)[: len(frame)] = frame
            self._connection.buffer_updated(len(frame))

        self._node.process.call(arrive)
        return decoded_reply(module, version, await self._transport.answer)


class _Stopped(Exception):
    pass


def _end_tasks() -> NoReturn:
    raise _Stopped


class SimulatedCluster:
    def __init__(
        self,
        format_: ClusterFormat,
        bucket: Bucket,
        seed: int,
        chances: Chances,
        settings: Mapping[str, Any],
    ) -> None:
        self.seed = seed
        self.settings = settings
        self.chances = chances
        self.format = format_
        self.bucket = bucket
        self.randomness = SeededRandomness(f"{seed} others")
        self.nodes: dict[int, SimulatedNode] = {}
        self.all_nodes: list[SimulatedNode] = []

    def start(self, node_id: int, levels: Levels = LEVELS) -> SimulatedNode:
        life = len(self.all_nodes)
        node = self.nodes[node_id] = SimulatedNode(self, node_id, life, levels=levels)
        self.all_nodes.append(node)
        return node

    def start_elsewhere(self, node_id: int, host: str) -> SimulatedNode:
        """With an id that another may have."""
        node = SimulatedNode(self, node_id, len(self.all_nodes), host)
        self.all_nodes.append(node)
        return node

    def led(self) -> dict[int, int]:
        """Which live node leads each lane, as the nodes have it; the newer of two."""
        epochs: dict[int, tuple[int, int]] = {}
        for node in self.nodes.values():
            if node.process.is_alive:
                for number, lane in node.broker.lanes.by_number.items():
                    found = (lane.view.epoch, node.node_id)
                    epochs[number] = max(epochs.get(number, found), found)
        return {number: node_id for number, (_, node_id) in sorted(epochs.items())}

    def leader_of(self, lane: int) -> SimulatedNode:
        return self.nodes[self.led()[lane]]

    def view(self, lane: int) -> LaneView:
        """Of a lane that is led."""
        return self.leader_of(lane).broker.lanes.by_number[lane].view

    async def until(self, condition: Callable[[], bool]) -> None:
        # Nothing tells when a node has looked; simulated time takes none.
        while not condition():
            await asyncio.sleep(0.01)
            for node in self.nodes.values():
                if node.error is not None:
                    raise node.error

    async def all_led(self, lanes: int) -> dict[int, int]:
        """Once every lane is led by somebody, and all who live say so."""
        live = [node for node in self.nodes.values() if node.process.is_alive]

        def knows(node: SimulatedNode, number: int) -> int | None:
            if number in node.broker.lanes.by_number:
                return node.node_id
            told = node.broker.elsewhere.leader_of(number)
            return None if told is None else told.node_id

        def agree() -> bool:
            led = self.led()
            return len(led) == lanes and all(
                knows(node, number) == node_id for node in live for number, node_id in led.items()
            )

        await self.until(agree)
        return self.led()

    async def leader(self, *, but: SimulatedNode | None = None) -> SimulatedNode:
        """Once there is one that serves."""
        while True:
            for node in self.nodes.values():
                if node.error is not None:
                    raise node.error
                if node is not but and node.leads:
                    return node
            await asyncio.sleep(0.01)

    def bury(self) -> None:
        """Close what was left suspended, when it can do no harm."""
        for node in self.all_nodes:
            node.kill()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            suspended: Any = task.get_coro()
            is_compiled = not inspect.iscoroutine(suspended)
            if not is_compiled and inspect.getcoroutinestate(suspended) == inspect.CORO_CREATED:
                # Nor has it begun with what it was given.
                for given in suspended.cr_frame.f_locals.values():
                    if inspect.iscoroutine(given):
                        given.close()
            with contextlib.suppress(RuntimeError, asyncio.CancelledError):
                suspended.close()


def on_nodes(
    *node_ids: int,
    seeds: Iterable[int] = (1,),
    chances: Chances = CALM,
    lanes: int = 1,
    levels: Levels = LEVELS,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Callable[[Callable[[SimulatedCluster], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """The test runs in simulated time, once for each seed, with these nodes started."""

    def decorated(
        scenario: Callable[[SimulatedCluster], Coroutine[Any, Any, None]],
    ) -> Callable[[], None]:
        async def main(seed: int) -> None:
            bucket = Bucket()
            made = await cluster_format.create(
                MemoryStore(bucket), SeededRandomness(seed), 3, 3, lane_count=lanes
            )
            cluster = SimulatedCluster(made, bucket, seed, chances, settings)
            for node_id in node_ids:
                cluster.start(node_id, levels)
            try:
                await scenario(cluster)
            finally:
                cluster.bury()

        def test() -> None:
            for seed in seeds:
                simulate(seed, partial(main, seed), budget_s=600.0)

        test.__name__ = scenario.__name__
        test.__doc__ = scenario.__doc__
        return test

    return decorated

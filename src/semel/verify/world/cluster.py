"""Several nodes under test: real brokers on one simulated store, each killed and started again.

A node has a process, a clock and a way to the store of its own. One that is frozen, or cut off from
the store, goes on to be asked: clients are sent to it above all.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, Final

from semel.broker.broker import Broker, Shared, Storage
from semel.broker.config import BrokerConfig
from semel.broker.lane_settings import lane_settings
from semel.cluster import format as cluster_format
from semel.cluster.channel import Ended, Received
from semel.cluster.format import ClusterFormat
from semel.cluster.node import Node, slot_settings
from semel.cluster.silence import Timing
from semel.errors import JournalFailed, JournalFull, NotLeaderOrFollower
from semel.journal.file.memory import MemoryDevice
from semel.journal.seam import Journal
from semel.journal.slots import keys
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.settings import SlotSettings
from semel.lane.following import FollowedLane
from semel.lane.leader import Leader, LedBy, NodeAddress
from semel.lane.settling import Volumes
from semel.store.disk_cache import DiskCache
from semel.store.in_memory import BAD_DAY, CALM, Chances, MemoryStore
from semel.types import Term
from semel.verify.history import (
    Cause,
    ClockSet,
    Complaint,
    Died,
    History,
    OpenFailed,
    SeveralNodes,
    TakenOver,
)
from semel.verify.world.cache_files import CacheFiles
from semel.verify.world.line_between import LineBetween
from semel.verify.world.loop import Process, SeededRandomness, SimulatedClock, SimulatedLoop
from semel.verify.world.machine import ProcessTasks, stop
from semel.verify.world.network import About, Loss, Network, Wire
from semel.verify.world.node_store import NodeStore
from semel.verify.world.slots_seen import WatchedBucket
from semel.verify.world.suspended import Suspended
from semel.verify.world.troubled_calls import QUIET, CallChances, TroubledCalls
from semel.verify.world.whereabouts import Whereabouts
from semel.volumes.making import MakesHere
from semel.volumes.on_store import volumes_in

TIMING: Final = Timing(1.0)
CONFIG: Final = BrokerConfig(
    message_max_bytes=60_000,
    journal_settle_bytes=50_000,
    journal_volume_bytes=400_000,
    log_retention_check_interval_ms=200,
    offsets_topic_num_partitions=3,
    transaction_state_log_num_partitions=3,
    group_min_session_timeout_ms=100,
    num_partitions=2,
)
SLOTS: Final = replace(
    slot_settings(TIMING),
    slot_bytes=2**18,
    ahead_bytes=1,
    unconfirmed_bytes=2**20,
    stretch_bytes=2**15,
    checkpoint_slots=40,
    tail_bytes=2**17,
    cache_bytes=2**17,
)
"""Small, so that there are checkpoints, full slots, and reads of what is in memory no more."""
CLOCK_ERRORS_MS: Final = (0, 0, 400, -400, 60_000, -60_000, 3_600_000, -3_600_000)
"""By how much the clocks of machines differ."""
STRAY_SHARE: Final = 0.15
"""Of those who connect elsewhere: any node is asked."""
STOP_S_MAX: Final = 5.0
CACHE_BYTES: Final = 2**19


class _Node(Node):
    """With slots so small that much happens in seconds."""

    def __init__(self, *arguments: Any, slots: SlotSettings) -> None:
        super().__init__(*arguments)
        self.slot_settings = slots
        self.is_impatient = False
        """It fences the lane as soon as it can, whether anybody leads or not."""

    def _left_s(self, follower: Follower, followed: FollowedLane) -> float:
        if self.is_impatient:
            take = partial(Follower.take, follower)
            follower.take = lambda node, randomness, **_: take(  # type: ignore[method-assign]
                node, randomness
            )
            return 0.0
        return super()._left_s(follower, followed)


class SimulatedNode:
    """One life of a node."""

    def __init__(self, cluster: "Cluster", node_id: int, life: int) -> None:
        self.node_id = node_id
        self.host = f"node-{node_id}.test"
        seed = f"{cluster.seed} {node_id} {life}"
        rng = Random(f"node {seed}")
        self.store = NodeStore(cluster.bucket, Random(f"store {seed}"), cluster.chances)
        self._files = cluster.cache_files[node_id]
        self._cache = DiskCache(self._files, CACHE_BYTES)
        self.node: _Node | None = None
        """Once it runs."""
        self.is_in_trouble = False
        self.is_alone = False
        """No other node reaches it, nor it them."""
        self._life = Process(f"{self.host} {life}")
        self._cluster = cluster
        self._randomness = SeededRandomness(seed)
        self._stopping = asyncio.Event()
        self.has_stopped = asyncio.Event()
        self._is_up = False
        self._config = replace(CONFIG, node_id=node_id)
        self._clock = SimulatedClock(asyncio.get_running_loop())
        self._clock.error_ms = rng.choice(CLOCK_ERRORS_MS)
        cluster.history.note(ClockSet(cluster.now_s(), self._clock.error_ms))
        self.broker = Broker(
            self._config,
            (),
            Storage("store", lambda: (-1, -1)),
            self._clock,
            self._randomness,
            Shared(
                cluster.format.cluster_id,
                SLOTS.limits,
                TIMING.detection_s,
                volumes=self._volumes,
            ),
        )
        self._device_seed = f"device {seed}"
        TroubledCalls(
            self.broker, Random(f"calls {seed}"), lambda: cluster.call_chances, self._zombie_of
        )
        self._life.start(self._live())

    def _zombie_of(self, lane: int) -> LedBy | None:
        """Another who has led this lane, and does not know that it does no more."""
        for node in self._cluster.zombies_of(lane):
            if node is not self:
                return LedBy(Term(node.epoch_of(lane)), node.node_id, node.host, 9092)
        return None

    def _volumes(self, number: int, journal: Journal) -> Volumes:
        """Of a lane that was taken: what is made for them is made in memory."""
        assert isinstance(journal, SlotJournal)
        assert journal.epoch is not None
        journal.use_cache(self._cache.of_leader(journal.epoch, keys.reused(number)))
        device = MemoryDevice(Random(self._device_seed))
        device.start(self._cluster.loop)
        maker = MakesHere(device)
        return Volumes(*volumes_in(self.store, number, journal, self._randomness, device, maker))

    async def connect(self, host: str, port: int, received: Received, ended: Ended) -> LineBetween:
        """To another node."""
        called = next((node for node in self._cluster.nodes.values() if node.host == host), None)
        if called is None or self.is_alone or called.is_alone:
            raise ConnectionRefusedError(host)
        return LineBetween(self._cluster.network, self._life, called, received, ended)

    async def _live(self) -> None:
        format_ = self._cluster.format
        node = self.node = _Node(
            self.store,
            format_,
            Leader(format_.cluster_id, self.node_id, self.host, 9092),
            TIMING,
            lane_settings(self._config),
            self._randomness,
            self.broker.host,
            self.connect,
            slots=SLOTS,
        )
        tasks = ProcessTasks(self, self._life)
        try:
            await self.broker.start(tasks)
            self._is_up = True
            tasks.create_task(node.run())
            await self._stopping.wait()
            await node.leave()
            self._is_up = False
            await stop(self.broker, tasks)
        except Exception as error:  # noqa: BLE001 - whatever it is, the node has ended.
            self.broken(self._life, error)
        self.has_stopped.set()

    def broken(self, process: Process, error: BaseException) -> None:
        """An exception has ended the process, or should have."""
        self._cluster.crashed(self, error)

    @property
    def life(self) -> Process:
        return self._life

    # A host that clients connect to.

    @property
    def process(self) -> Process | None:
        return self._life if self._is_up and self._life.is_alive else None

    def accept(self) -> asyncio.BufferedProtocol:
        return self.broker.connection()

    # Life

    @property
    def is_alive(self) -> bool:
        return self._life.is_alive

    def epoch_of(self, lane: int) -> int:
        """In which it leads the lane, as it believes; -1: it does not."""
        led = self.broker.lanes.by_number.get(lane) if self.is_alive else None
        return -1 if led is None else led.view.epoch

    def is_at_rest_before(self, slot: int) -> bool:
        """It leads lane 0, comes to this slot next, and has nothing to put there."""
        led = None if self.node is None or not self.is_alive else self.node.led
        return (
            led is not None and led.journal.slot == slot and led.journal.durable == led.journal.end
        )

    def ask_barrier(self) -> None:
        """As a reader does who comes at this very moment."""
        self._life.start(self._ask_barrier())

    async def _ask_barrier(self) -> None:
        led = None if self.node is None else self.node.led
        if led is not None and led.lane.is_leading:
            led.journal.barrier(lambda: None)

    def stop(self) -> None:
        """As SIGTERM does."""
        self._stopping.set()

    def order_move(self, lane: int, to: "SimulatedNode") -> None:
        """As who leads lane 0, when its owner says so."""
        self._life.start(self._move(lane, to))

    async def _move(self, lane: int, to: "SimulatedNode") -> None:
        led = None if self.node is None else self.node.led
        if self.node is None or led is None:
            return
        if lane == 0:
            await self.node.hand_over([NodeAddress(to.node_id, to.host, 9092)])
            return
        with contextlib.suppress(JournalFull, NotLeaderOrFollower):
            led.placing.place(lane, to.node_id)

    def freeze(self, duration_s: float) -> None:
        self._cluster.loop.freeze(self._life, duration_s)

    @property
    def is_frozen(self) -> bool:
        return self._life.is_frozen

    def thaw(self) -> None:
        if self._life.is_frozen:
            self._cluster.loop.thaw(self._life)

    @property
    def follows(self) -> Follower | None:
        """What it has read, while it stands by."""
        return None if self.node is None else self.node.follower

    def die(self) -> None:
        self._life.die()
        self._files.crash()
        self._cluster.network.broker_died(self._life, silently=False)
        self._cluster.request_count += sum(self.broker.metrics.requests.values())

    def end(self) -> None:
        self._life.die()


class Cluster:
    def __init__(
        self,
        seed: int,
        network: Network,
        history: History,
        format_: ClusterFormat,
        bucket: WatchedBucket,
    ) -> None:
        self.lane_count = format_.lane_count
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.loop = loop
        self.seed = seed
        self.network = network
        self.history = history
        self.format = format_
        self.bucket = bucket
        self.chances: Chances = BAD_DAY
        self.call_chances: CallChances = QUIET
        self.cache_files: dict[int, CacheFiles] = {}
        """Of each machine."""
        self.nodes: dict[int, SimulatedNode] = {}
        self.counts: Counter[str] = Counter()
        self.request_count = 0
        self._whereabouts = Whereabouts(self.lane_count, self._catalogue)
        self._lives: list[SimulatedNode] = []
        self._suspended = Suspended(loop)
        bucket.on_taken_over = lambda lane: history.note(TakenOver(self.now_s(), lane))
        loop.set_exception_handler(self._on_exception)

    @classmethod
    async def create(
        cls,
        seed: int,
        network: Network,
        history: History,
        node_ids: Sequence[int],
        lane_count: int = 1,
    ) -> "Cluster":
        bucket = WatchedBucket(lane_count)
        format_ = await cluster_format.create(
            MemoryStore(bucket),
            SeededRandomness(seed),
            CONFIG.offsets_topic_num_partitions,
            CONFIG.transaction_state_log_num_partitions,
            lane_count=lane_count,
        )
        cluster = cls(seed, network, history, format_, bucket)
        history.note(SeveralNodes(tuple(node_ids), lane_count))
        for node_id in node_ids:
            cluster.cache_files[node_id] = CacheFiles(f"cache {seed} {node_id}")
            cluster.start(node_id)
        return cluster

    def now_s(self) -> float:
        return self.loop.time()

    # Whom clients ask

    def lane_of(self, about: About) -> int:
        return self._whereabouts.lane_of(about)

    def _catalogue(self) -> Broker | None:
        leader = self.leader_of(0)
        return None if leader is None else leader.broker

    def leader_of(self, lane: int) -> SimulatedNode | None:
        """The newest of those who believe to lead it."""
        leading = [node for node in self.nodes.values() if node.epoch_of(lane) >= 0]
        return max(leading, key=lambda node: node.epoch_of(lane), default=None)

    def zombies_of(self, lane: int) -> list[SimulatedNode]:
        """Those who have been fenced, and do not know."""
        newest = self.bucket.lanes[lane].epoch
        return [node for node in self.nodes.values() if 0 <= node.epoch_of(lane) < newest]

    def choose(self, rng: Random, zombie_share: float, lane: int) -> SimulatedNode:
        zombies, leader = self.zombies_of(lane), self.leader_of(lane)
        if zombies and rng.random() < zombie_share:
            self.counts["connections to zombies"] += 1
            return rng.choice(zombies)
        if leader is None or rng.random() < STRAY_SHARE:
            return rng.choice(list(self.nodes.values()))
        return leader

    async def serving(self, *lanes: int) -> None:
        """Return when somebody leads each of these, or all."""
        for lane in lanes or range(self.lane_count):
            # Nothing tells when a node leads; simulated time takes none.
            while not self._is_led(lane):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    def _is_led(self, lane: int) -> bool:
        leader = self.leader_of(lane)
        return leader is not None and leader.epoch_of(lane) >= self.bucket.lanes[lane].epoch

    # Life and death

    def start(self, node_id: int) -> SimulatedNode:
        node = self.nodes[node_id] = SimulatedNode(self, node_id, len(self._lives))
        self._lives.append(node)
        return node

    def kill(self, node: SimulatedNode, cause: Cause = Cause.KILLED, reason: str = "") -> None:
        if node.is_alive:
            node.die()
            self.history.note(Died(self.now_s(), cause, reason or node.host))

    async def stop_node(self, node: SimulatedNode) -> None:
        """As SIGTERM does it; who does not end is killed."""
        node.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S_MAX):
                await node.has_stopped.wait()
        self.kill(node, Cause.STOPPED)

    def lose_power(self) -> None:
        """All at once; and all come back."""
        for node_id, node in list(self.nodes.items()):
            self.kill(node, Cause.KILLED, "all")
            self.start(node_id)

    async def stop(self) -> None:
        """The leader goes, in order."""
        leader = self.leader_of(0)
        if leader is not None:
            await self.stop_node(leader)
            self.start(leader.node_id)

    def heal(self) -> None:
        """From here on nothing goes wrong any more."""
        bucket = self.bucket
        bucket.is_away = bucket.is_full = bucket.is_read_only = False
        self.call_chances = QUIET
        self.set_chances(replace(CALM, latency_s_mean=0.002))
        for node_id, node in list(self.nodes.items()):
            node.store.is_cut = node.store.has_expired = node.is_alone = False
            node.thaw()
            if not node.is_alive:
                self.start(node_id)

    def part(self, node: SimulatedNode) -> list[Wire]:
        """From all other nodes: nothing of what they say to each other arrives any more."""
        node.is_alone = True
        return self.network.silence(self._is_between_nodes(node))

    def rejoin(self, node: SimulatedNode, silenced: list[Wire]) -> None:
        """It can be reached again, and that nothing arrives over these is heard at once."""
        node.is_alone = False
        for wire in silenced:
            self.network.lose(wire, Loss.RESET)

    def lose_line(self, rng: Random) -> None:
        """Some connection between nodes."""
        self.network.lose_some(rng, self._is_between_nodes())

    def _is_between_nodes(self, node: SimulatedNode | None = None) -> Callable[[Wire], bool]:
        lives = {id(each.life) for each in self.nodes.values()}

        def is_meant(wire: Wire) -> bool:
            ends = {id(wire.client), id(wire.broker)}
            return ends <= lives and (node is None or id(node.life) in ends)

        return is_meant

    def set_chances(self, chances: Chances) -> None:
        self.chances = chances
        for node in self.nodes.values():
            node.store.chances = chances

    def crashed(self, node: SimulatedNode, error: BaseException) -> None:
        self.history.note(OpenFailed(f"{node.host}: {error!r}"))
        self.kill(node, Cause.CRASHED, repr(error))

    def _on_exception(self, loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        error = details.get("exception")
        if not isinstance(error, JournalFailed):
            self.history.note(Complaint(f"{details['message']}: {error!r}"))

    def bury(self) -> None:
        """Close what was left suspended, after the run, when it can do no harm."""
        for node in self._lives:
            node.end()
        self._suspended.close()

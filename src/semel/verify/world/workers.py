"""Several workers under test: real brokers on the disks of one machine, each a lane or more.

Who leads which lane never changes. A worker that dies is started again, and opens what it finds:
a killed one in the same term, one whose disk has lost power in the next.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import Context
from dataclasses import replace
from random import Random
from typing import Any, Final

from semel.broker.between import BETWEEN_WORKERS, OnlyNodes
from semel.broker.broker import Broker, Storage
from semel.broker.broker import Workers as LedByWorkers
from semel.broker.connection import Connection
from semel.broker.lines import Lines
from semel.broker.neighbour import Neighbour
from semel.broker.worker import PATIENCE_S, Worker
from semel.cluster.channel import Ended, Received
from semel.cluster.keys import OnlyKey
from semel.errors import JournalFailed
from semel.journal.file.memory import Killed
from semel.verify.history import Cause, ClockSet, Complaint, Died, History, OpenFailed, SeveralNodes
from semel.verify.world.line_between import LineBetween
from semel.verify.world.loop import Process, SeededRandomness, SimulatedClock, SimulatedLoop
from semel.verify.world.machine import CONFIG as CONFIG_OF_ONE
from semel.verify.world.machine import DISK_BYTES, ProcessTasks, SimulatedDisk, stop
from semel.verify.world.network import About, Network, SimulatedTransport, Wire
from semel.verify.world.suspended import Suspended
from semel.verify.world.troubled_calls import QUIET, CallChances, TroubledCalls
from semel.verify.world.whereabouts import Whereabouts

CONFIG: Final = replace(
    CONFIG_OF_ONE,
    journal_settle_bytes=2_000_000,
    journal_volume_bytes=4_000_000,
    log_retention_check_interval_ms=500,
)
STRAY_SHARE: Final = 0.1
"""Of those who connect elsewhere: any worker is asked."""
PAUSE_S_MEAN: Final = 0.15
"""Until a worker that has died is started again."""
PORT: Final = 9092
STOP_S_MAX: Final = 10.0


def _reading(connection: Connection, transport: asyncio.Transport) -> Callable[[], bool]:
    assert isinstance(transport, SimulatedTransport)
    return transport.read_now


class _Between:
    """Where one worker is called by the others."""

    node_id = None

    def __init__(self, worker: "SimulatedWorker") -> None:
        self._worker = worker
        self._only_nodes: OnlyNodes | None = None

    def epoch_of(self, lane: int) -> int:
        return self._worker.epoch_of(lane)

    @property
    def process(self) -> Process | None:
        return self._worker.process

    def accept(self) -> asyncio.BufferedProtocol:
        broker = self._worker.broker
        assert broker is not None
        assert broker.server is not None
        if self._only_nodes is None:
            self._only_nodes = OnlyNodes(broker.server, _reading)
        return broker.connection(BETWEEN_WORKERS, self._only_nodes)


class SimulatedWorker:
    """One life of a worker."""

    def __init__(self, workers: "Workers", index: int, life: int) -> None:
        self.index = index
        self.node_id = index + 1
        self.between = _Between(self)
        self.life = Process(f"worker {self.node_id} {life}")
        self.broker: Broker | None = None
        """Once it has opened its lanes."""
        self.is_listening = False
        self.has_ended = asyncio.Event()
        self._workers = workers
        self._stopping = asyncio.Event()
        self._seed = f"{workers.seed} {index} {life}"
        self._randomness = SeededRandomness(self._seed)

    def open(self) -> None:
        workers = self._workers
        leaders = workers.leaders
        config = replace(CONFIG, node_id=self.node_id)
        broker = Broker(
            config,
            [workers.disks[lane] for lane in workers.lanes_of(self.index)],
            Storage("simulated", lambda: (DISK_BYTES, DISK_BYTES // 2)),
            workers.clock,
            self._randomness,
            workers=LedByWorkers(
                workers.lane_count,
                tuple(workers.lanes_of(self.index)),
                tuple(each for each in workers.neighbours if each.node_id != self.node_id),
            ),
        )
        key = OnlyKey(b"key of all workers")
        worker = Worker(broker, self.node_id, leaders, key, self._randomness)
        TroubledCalls(
            broker, Random(f"calls {self._seed}"), lambda: workers.call_chances, lambda _: None
        )
        self.broker = broker
        self.life.start(self._live(broker, worker, key))

    async def _live(self, broker: Broker, worker: Worker, key: OnlyKey) -> None:
        tasks = ProcessTasks(self, self.life)
        try:
            await broker.start(tasks)
            worker.begin(
                tasks,
                Lines(
                    key,
                    self._randomness,
                    self.connect,
                    tasks.create_task,
                    PATIENCE_S,
                    stay_on_machine=True,
                ),
            )
            await worker.may_serve.wait()
            self.is_listening = True
            await self._stopping.wait()
            self.is_listening = False
            await stop(broker, tasks)
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker has ended.
            self.broken(self.life, error)
        else:
            failures = [journal.failure for journal in broker.journals.values() if journal.failure]
            if failures:
                self.broken(self.life, failures[0])
        self.has_ended.set()

    async def connect(self, host: str, port: int, received: Received, ended: Ended) -> LineBetween:
        """To another worker."""
        called = self._workers.at(host, port)
        return LineBetween(
            self._workers.network, self.life, called.between, received, ended, is_on_machine=True
        )

    def broken(self, process: Process, error: BaseException) -> None:
        """An exception has ended the process, or should have."""
        if isinstance(error, Killed):
            self._workers.die(self, Cause.KILLED)
        elif isinstance(error, JournalFailed):
            self._workers.die(self, Cause.IO_ERROR, str(error))
        else:
            self._workers.die(self, Cause.CRASHED, repr(error))

    # A host that clients connect to.

    @property
    def process(self) -> Process | None:
        return self.life if self.is_listening and self.life.is_alive else None

    def accept(self) -> asyncio.BufferedProtocol:
        assert self.broker is not None
        return self.broker.connection()

    def epoch_of(self, lane: int) -> int:
        broker = self.broker if self.life.is_alive else None
        led = None if broker is None else broker.lanes.by_number.get(lane)
        return -1 if led is None else led.view.epoch

    def stop(self) -> None:
        """As SIGTERM does."""
        self._stopping.set()


def address(index: int) -> tuple[str, int]:
    return f"worker-{index + 1}.test", PORT + index


class Workers:
    def __init__(
        self, seed: int, network: Network, history: History, worker_count: int, lane_count: int
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.loop = loop
        self.seed = seed
        self.network = network
        self.history = history
        self.worker_count = worker_count
        self.lane_count = lane_count
        self.clock = SimulatedClock(loop)
        self.disks = [SimulatedDisk(Random(f"disk {seed} {lane}")) for lane in range(lane_count)]
        self.call_chances: CallChances = QUIET
        self.counts: Counter[str] = Counter()
        self.request_count = 0
        self.alive: dict[int, SimulatedWorker] = {}
        """By their places; those that are being started again are not there."""
        self._rng = Random(f"workers {seed}")
        self._lives: list[SimulatedWorker] = []
        self._whereabouts = Whereabouts(lane_count, self._catalogue)
        self.neighbours = [Neighbour(index + 1, *address(index)) for index in range(worker_count)]
        self.leaders = [self.neighbours[lane % worker_count] for lane in range(lane_count)]
        self._suspended = Suspended(loop)
        loop.set_exception_handler(self._on_exception)
        history.note(SeveralNodes(tuple(range(1, worker_count + 1)), lane_count, False))
        history.note(ClockSet(loop.time(), 0))
        for index in range(worker_count):
            self._start(index)

    def lanes_of(self, index: int) -> range:
        return range(index, self.lane_count, self.worker_count)

    def at(self, host: str, port: int) -> SimulatedWorker:
        """Raises ConnectionRefusedError."""
        for worker in self.alive.values():
            if address(worker.index) == (host, port):
                return worker
        raise ConnectionRefusedError(host)

    # Whom clients ask

    def lane_of(self, about: About) -> int:
        return self._whereabouts.lane_of(about)

    def _catalogue(self) -> Broker | None:
        worker = self.alive.get(0)
        return worker.broker if worker is not None and worker.is_listening else None

    def choose(self, rng: Random, zombie_share: float, lane: int) -> SimulatedWorker:
        worker = self.alive.get(lane % self.worker_count)
        if worker is None or rng.random() < STRAY_SHARE:
            return rng.choice(self._lives[-self.worker_count :])
        return worker

    async def serving(self, *lanes: int) -> None:
        """Return when all clients are served."""
        # Nothing tells when a worker is; simulated time takes none.
        while not self._are_all_listening:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    @property
    def _are_all_listening(self) -> bool:
        listening = [worker for worker in self.alive.values() if worker.is_listening]
        return len(listening) == self.worker_count

    # Life and death

    def _start(self, index: int) -> None:
        if index in self.alive:
            return
        worker = self.alive[index] = SimulatedWorker(self, index, len(self._lives))
        self._lives.append(worker)
        try:
            worker.life.call(worker.open)
        except Killed:
            self.die(worker, Cause.KILLED, "while opening")
        except Exception as error:  # noqa: BLE001 - whatever it is, it did not start.
            self.history.note(OpenFailed(repr(error)))
            self.die(worker, Cause.CRASHED, repr(error))

    def die(
        self,
        worker: SimulatedWorker,
        cause: Cause = Cause.KILLED,
        reason: str = "",
        without_power: Iterable[int] = (),
    ) -> None:
        """`without_power` are lanes whose disks lose it; the kernel keeps what others had."""
        if self.alive.get(worker.index) is not worker:
            return
        del self.alive[worker.index]
        worker.life.die()
        worker.has_ended.set()
        if worker.broker is not None:
            self.request_count += sum(worker.broker.metrics.requests.values())
        self.network.broker_died(worker.life, silently=False)
        lost = set(without_power)
        for lane in self.lanes_of(worker.index):
            if lane in lost:
                self.disks[lane].power_loss()
            else:
                self.disks[lane].kill()
        self.counts[f"died: {cause.value}"] += 1
        self.history.note(Died(self.loop.time(), cause, reason or f"worker {worker.node_id}"))
        if cause is not Cause.CRASHED:
            # As nobody's callback, since whoever plans it may die before.
            pause_s = self._rng.expovariate(1 / PAUSE_S_MEAN)
            self.loop.call_later(pause_s, self._start, worker.index, context=Context())

    def leading(self, lane: int) -> SimulatedWorker | None:
        return self.alive.get(lane % self.worker_count)

    def kill(self, lane: int) -> None:
        worker = self.leading(lane)
        if worker is not None:
            self.die(worker)

    def kill_in(self, delay_s: float, lane: int) -> None:
        self.loop.call_later(delay_s, self.kill, lane, context=Context())

    def lose_power_of(self, lane: int) -> None:
        """Of its disk alone."""
        worker = self.leading(lane)
        if worker is not None:
            self.die(worker, Cause.POWER_LOSS, f"lane {lane}", [lane])
            self.counts["power losses of one lane"] += 1

    def lose_power_in_a_sync(self, lane: int, delay_s: float) -> None:
        """The next sync of the lane does not return, and `delay_s` later its power is gone."""

        def plan() -> None:
            self.loop.call_later(delay_s, self.lose_power_of, lane, context=Context())

        self.disks[lane].on_next_sync = plan

    def lose_power(self) -> None:
        """Of the machine."""
        for worker in [*self.alive.values()]:
            self.die(worker, Cause.POWER_LOSS, without_power=self.lanes_of(worker.index))

    async def stop_worker(self, worker: SimulatedWorker) -> None:
        """As SIGTERM does it; who does not end is killed."""
        worker.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S_MAX):
                await worker.has_ended.wait()
        self.die(worker, Cause.STOPPED)

    async def stop(self) -> None:
        """All end in order, and come back."""
        async with asyncio.TaskGroup() as stopping:
            for worker in [*self.alive.values()]:
                stopping.create_task(self.stop_worker(worker))

    def freeze(self, lane: int, duration_s: float) -> None:
        worker = self.leading(lane)
        if worker is not None and not worker.life.is_frozen:
            self.loop.freeze(worker.life, duration_s)

    def lose_line(self, rng: Random) -> None:
        """Some connection between workers."""
        lives = {id(each.life) for each in self.alive.values()}

        def is_meant(wire: Wire) -> bool:
            return {id(wire.client), id(wire.broker)} <= lives

        self.network.lose_some(rng, is_meant)

    def heal(self) -> None:
        """From here on nothing goes wrong any more."""
        self.call_chances = QUIET
        for disk in self.disks:
            disk.is_full = disk.fails_next_sync = disk.fails_next_write = False
            disk.calls_left = disk.on_next_sync = None
        for worker in self.alive.values():
            if worker.life.is_frozen:
                self.loop.thaw(worker.life)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        error = details.get("exception")
        running = self.loop.running
        if isinstance(error, Killed):
            for worker in [*self.alive.values()]:
                if worker.life is running:
                    self.die(worker, Cause.KILLED, "in a blocking call")
        elif not isinstance(error, JournalFailed):
            self.history.note(Complaint(f"{details['message']}: {error!r}"))

    def bury(self) -> None:
        """After the run."""
        for worker in self._lives:
            worker.life.die()
        self._suspended.close()

"""The machine under test: the real broker on a simulated disk, killed and started again."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Protocol

from semel.broker.broker import Broker, Storage
from semel.broker.config import BrokerConfig
from semel.errors import JournalFailed
from semel.journal import names
from semel.journal.file.device import Done, Job
from semel.journal.file.memory import Killed, MemoryDevice, SimulatedJob
from semel.types import Buffer
from semel.verify.history import Cause, ClockSet, Complaint, Died, History, OpenFailed
from semel.verify.world.loop import Process, SeededRandomness, SimulatedClock, SimulatedLoop
from semel.verify.world.network import About, Network

SYNC_DELAYS_S = (0.0, 0.0, 0.002, 0.02, 0.2)
MOOD_COUNT = 10
"""Syncs until the mood may change."""
SEGMENT_BYTES = 1_150_000
"""Small, so that segments fill and their headroom runs out."""
CONFIG = BrokerConfig(
    message_max_bytes=150_000,
    journal_segment_bytes=SEGMENT_BYTES,
    offsets_topic_num_partitions=3,
    transaction_state_log_num_partitions=3,
    group_min_session_timeout_ms=100,
    num_partitions=2,
)
INTERNAL_TOPICS = {
    "__consumer_offsets": CONFIG.offsets_topic_num_partitions,
    "__transaction_state": CONFIG.transaction_state_log_num_partitions,
}
DISK_BYTES = 2**30


class Step(Enum):
    """What a call on the disk does towards settling, as far as deaths are planned by it."""

    CHANGE = "change"
    """Of a file, or of its name."""
    LAST_NAME = "last name"
    """A volume has both of its names, and no fact tells of it yet."""
    REMOVAL = "removal"


class SimulatedDisk(MemoryDevice):
    """It has moods: now and then its syncs take long, so that more is at stake in a crash."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self._moods = Random(rng.random())
        self._delay_s = 0.0

        self.on_next_sync: Callable[[], None] | None = None
        """Called once, instead of a sync that will never be heard of again."""
        self.on_next_checkpoint: Callable[[], None] | None = None
        """Called once, when a checkpoint has got its name."""
        self.volume_count = 0
        self.steps_left = 0
        self.counted_step: Step | None = None
        """Those that count; None: all."""
        self.background_delay_s = 0.0
        self.on_step: Callable[[], None] | None = None
        """Called once, when that many calls that make a volume or give room back are done."""

    def create(self, name: str) -> None:
        super().create(name)
        self._step(name)

    def write(self, name: str, offset: int, parts: Sequence[Buffer]) -> None:
        super().write(name, offset, parts)
        self._step(name)

    def sync(self, name: str) -> None:
        super().sync(name)
        self._step(name)

    def remove(self, name: str) -> None:
        super().remove(name)
        self._step(name, Step.REMOVAL)

    def submit(self, job: Job, on_done: Done) -> SimulatedJob:
        return SimulatedJob(job, on_done, self._in_the_background)

    def _in_the_background(self, action: Callable[[], None]) -> None:
        if self.background_delay_s == 0.0:
            self._later(action)
            return
        assert self._loop is not None
        self._loop.call_later(self.background_delay_s, self._later, action)

    def _step(self, name: str, step: Step = Step.CHANGE) -> None:
        is_of_volume = names.VOLUME in name
        if self.on_step is None or not (is_of_volume or name.endswith(names.SEGMENT)):
            return
        if self.counted_step not in (None, step):
            return
        self.steps_left -= 1
        if self.steps_left <= 0:
            on_step, self.on_step = self.on_step, None
            on_step()

    def rename(self, name: str, successor: str) -> None:
        super().rename(name, successor)
        self.volume_count += successor.endswith(names.VOLUME)
        is_last = successor.endswith(names.VOLUME_INDEX)
        self._step(successor, Step.LAST_NAME if is_last else Step.CHANGE)
        if successor.endswith(names.CHECKPOINT) and self.on_next_checkpoint is not None:
            on_next_checkpoint, self.on_next_checkpoint = self.on_next_checkpoint, None
            on_next_checkpoint()

    def submit_sync(self, files: Sequence[str], folder: bool, on_done: Done) -> None:
        if self.on_next_sync is not None:
            on_next_sync, self.on_next_sync = self.on_next_sync, None
            on_next_sync()
            return
        if self._moods.randrange(MOOD_COUNT) == 0:
            self._delay_s = self._moods.choice(SYNC_DELAYS_S)
        if self._delay_s == 0.0:
            super().submit_sync(files, folder, on_done)
            return
        assert self._loop is not None
        self._loop.call_later(self._delay_s, super().submit_sync, files, folder, on_done)


class Owner(Protocol):
    def broken(self, process: Process, error: BaseException) -> None: ...


class ProcessTasks(asyncio.TaskGroup):
    """The tasks of a process: the failure of one is the end of all. They are cancelled in the order
    in which they were started, so that a seed gives the same run each time."""

    def __init__(self, machine: Owner, process: Process) -> None:
        super().__init__()
        self._machine = machine
        self._process = process
        self.unfinished: dict[asyncio.Task[Any], None] = {}

    def create_task(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[Any]":
        assert isinstance(coro, Coroutine)
        task = self._process.start(coro)
        self.unfinished[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        del self.unfinished[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._machine.broken(self._process, error)


class Hopeless(Exception):
    """The broker has ended by itself, or cannot start; there is nothing more to see."""


class Machine:
    def __init__(
        self,
        seed: int,
        network: Network,
        history: History,
        config: BrokerConfig = CONFIG,
        background_delays_s: Sequence[float] = (),
    ) -> None:
        self._background_delays_s = background_delays_s or (0.0,)
        self._background_rng = Random(f"background {seed}")
        self._seed = seed
        self._config = config
        self._network = network
        self._history = history
        self._rng = Random(f"machine {seed}")
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self._loop = loop
        self._context = copy_context()
        self.device = SimulatedDisk(Random(f"device {seed}"))
        self.clock = SimulatedClock(loop)
        self.start_count = 0
        self.request_count = 0
        self.duplicate_count = 0
        self.segment_count = 1
        self._checkpoint_left = 0
        """The position of the one that was left when another was lost."""
        self.broker: Broker | None = None
        self._running: Process | None = None
        self._tasks: ProcessTasks | None = None
        self._is_listening = False
        self._processes: list[Process] = []
        self._changed = asyncio.Event()
        self._is_hopeless = False
        loop.set_exception_handler(self._on_exception)

    # A host that clients connect to, and the only one.

    node_id = None
    lane_count = 1

    def lane_of(self, about: About) -> int:
        return 0

    def epoch_of(self, lane: int) -> int:
        return -1

    def choose(self, rng: Random, zombie_share: float, lane: int) -> "Machine":
        return self

    @property
    def process(self) -> Process | None:
        return self._running if self._is_listening else None

    def accept(self) -> asyncio.BufferedProtocol:
        assert self.broker is not None
        return self.broker.connection()

    # Life

    async def run(self) -> None:
        """Start, and start again whenever it has died. Raises Hopeless if there is no use in it."""
        while True:
            self._start()
            while self._running is not None:
                self._changed.clear()
                await self._changed.wait()
            if self._is_hopeless:
                raise Hopeless
            await asyncio.sleep(self._rng.expovariate(1 / 0.15))

    def _start(self) -> None:
        self.start_count += 1
        self.device.background_delay_s = self._background_rng.choice(self._background_delays_s)
        process = Process(f"broker {self.start_count}")
        self._processes.append(process)
        self._running = process
        # Clocks are set a little at every start.
        self.set_clock(self._rng.randint(-50, 50))
        randomness = SeededRandomness(f"{self._seed} {self.start_count}")
        storage = Storage("simulated", lambda: (DISK_BYTES, DISK_BYTES // 2))
        try:
            self.broker = process.call(
                lambda: Broker(self._config, [self.device], storage, self.clock, randomness)
            )
        except Killed:
            self._die(Cause.KILLED, "while opening")
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, it did not start.
            self._history.note(OpenFailed(repr(error)))
            self._die(Cause.CRASHED, repr(error))
            return
        self._tasks = ProcessTasks(self, process)
        starting = process.start(self.broker.start(self._tasks))
        starting.add_done_callback(partial(self._started, process))

    def _started(self, process: Process, starting: "asyncio.Task[Any]") -> None:
        if process is not self._running:
            return  # It has died between the end of its start and this.
        error = starting.exception()
        if error is not None:
            self.broken(process, error)
        else:
            self._is_listening = True
            self._changed.set()

    async def serving(self) -> None:
        """Return when it accepts connections."""
        while not self._is_listening:
            self._changed.clear()
            await self._changed.wait()

    # Time

    def set_clock(self, ahead_ms: int) -> None:
        """The wall clock jumps, whether a broker runs or rests; back if it is negative."""
        self.clock.error_ms += ahead_ms
        self._history.note(ClockSet(self._loop.time(), self.clock.error_ms))

    def freeze(self, duration_s: float) -> None:
        if self._running is not None:
            self._loop.freeze(self._running, duration_s)

    def thaw(self) -> None:
        if self._running is not None:
            self._loop.thaw(self._running)

    # Death

    def kill(self) -> None:
        if self._running is not None:
            self._die(Cause.KILLED)

    def kill_in(self, delay_s: float) -> None:
        # As nobody's callback, since whoever plans it may die before.
        self._loop.call_later(delay_s, self.kill, context=self._context)

    def lose_power(self) -> None:
        """Also of a machine on which no broker runs: the kernel's memory is lost all the same."""
        self._die(Cause.POWER_LOSS)

    def lose_a_checkpoint(self) -> None:
        """The power, and the newest checkpoint with it. One at a time: the journal keeps two."""
        self.lose_power()
        positions = names.positions(self.device.names(), names.CHECKPOINT)
        if len(positions) > 1 and positions[-1] > self._checkpoint_left:
            newest = names.checkpoint(positions[-1])
            self.device.flip_bit(newest, self._rng.randrange(self.device.size(newest)))
            self._checkpoint_left = positions[-2]

    def lose_power_in_a_sync(self, delay_s: float) -> None:
        """The next sync does not return, and `delay_s` later the power is gone."""
        self.device.on_next_sync = self._power_loss_in(delay_s)

    def lose_power_at_a_checkpoint(self, delay_s: float) -> None:
        self.device.on_next_checkpoint = self._power_loss_in(delay_s)

    def die_while_settling(
        self,
        step_count: int,
        delay_s: float,
        die: Callable[[], None],
        counted: Step | None = None,
    ) -> None:
        """So long after the call that is this one of those that make volumes or remove files."""

        def plan() -> None:
            self._loop.call_later(delay_s, die, context=self._context)

        self.device.counted_step = counted
        self.device.steps_left = step_count
        self.device.on_step = plan

    def hang_while_settling(
        self, step_count: int, delay_s: float, counted: Step | None = None
    ) -> None:
        """The first sync of the journal behind that call does not return any more."""
        self.device.counted_step = counted
        self.device.steps_left = step_count
        self.device.on_step = partial(self.lose_power_in_a_sync, delay_s)

    def _power_loss_in(self, delay_s: float) -> Callable[[], None]:
        # The plan is ours, not that of the process that meets it.

        def plan() -> None:
            self._loop.call_later(delay_s, self.lose_power, context=self._context)

        return plan

    async def stop(self) -> None:
        """As a SIGTERM does it; something else may kill the process meanwhile."""
        process, broker, tasks = self._running, self.broker, self._tasks
        if process is None or broker is None or tasks is None or not self._is_listening:
            return
        self._is_listening = False
        stopping = process.start(stop(broker, tasks))
        stopping.add_done_callback(lambda _: self._changed.set())
        while not stopping.done() and self._running is process:
            self._changed.clear()
            await self._changed.wait()
        if self._running is not process:
            return
        error = stopping.exception() or broker.journals[0].failure
        if error is not None:
            self.broken(process, error)
        else:
            self._die(Cause.STOPPED)

    def broken(self, process: Process, error: BaseException) -> None:
        """An exception has ended the process, or should have."""
        if process is not self._running:
            return
        if isinstance(error, Killed):
            self._die(Cause.KILLED, "in a blocking call")
        elif isinstance(error, JournalFailed):
            self._die(Cause.IO_ERROR, str(error))
        else:
            self._die(Cause.CRASHED, repr(error))

    def bury(self) -> None:
        for process in self._processes:
            process.bury()

    def _die(self, cause: Cause, reason: str = "") -> None:
        process, self._running = self._running, None
        self._is_listening = False
        if process is not None:
            self._count()
            process.die()
            self._network.broker_died(
                process, silently=cause is Cause.POWER_LOSS and self._rng.random() < 0.5
            )
        if cause is Cause.POWER_LOSS:
            self.device.power_loss()
        else:
            self.device.kill()
        self.broker = None
        self._is_hopeless |= cause is Cause.CRASHED
        self._history.note(Died(self._loop.time(), cause, reason))
        self._changed.set()

    def _count(self) -> None:
        if self.broker is not None:
            self.request_count += sum(self.broker.metrics.requests.values())
            self.duplicate_count += self.broker.metrics.batches_duplicate
            self.segment_count = max(
                self.segment_count, len(self.broker.journals[0].segments.bases)
            )

    def _on_exception(self, loop: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
        error = details.get("exception")
        running = self._loop.running
        if isinstance(error, Killed) and running is not None:
            self.broken(running, error)
        elif isinstance(error, JournalFailed):
            pass  # Its process is about to end because of it.
        else:
            self._history.note(Complaint(f"{details['message']}: {error!r}"))


async def stop(broker: Broker, tasks: ProcessTasks) -> None:
    """What the process does when it is asked to end."""
    broker.close()
    unfinished = tuple(tasks.unfinished)
    for task in unfinished:
        task.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
    await broker.stop()

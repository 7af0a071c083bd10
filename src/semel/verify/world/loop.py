"""An asyncio loop with simulated time, a schedule that comes from a seed, and processes that die.

Callbacks that are ready together run in any order. A callback belongs to the process in whose
context it was planned, and is forgotten once that process is dead: no `finally` of it runs, as
none would run after `kill -9`. While its process is frozen, it is held back.

Time, randomness and the fingerprint of a run, by which two runs of a seed are compared, go with it.
"""

import asyncio
import contextlib
import gc
import hashlib
import heapq
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

Result = TypeVar("Result")
_process: ContextVar["Process | None"] = ContextVar("process", default=None)
START_MS = 1_700_000_000_000


class Deadlock(AssertionError):
    """Everyone waits and no timer is set."""


class OutOfTime(AssertionError):
    """The run did not end within its budget of simulated time."""


class Process:
    """What dies together: tasks, timers and callbacks planned by them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_frozen = False
        self.held_back: list[asyncio.Handle] = []
        """What would have run by now."""
        self._context = copy_context()
        self._context.run(_process.set, self)
        self._tasks: list[asyncio.Task[Any]] = []

    @property
    def context(self) -> Context:
        """A fresh one, since a context cannot be entered twice."""
        return self._context.copy()

    def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """Run something now as a part of this process."""
        return self.context.run(function, *args)

    def start(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        task = asyncio.get_running_loop().create_task(work, context=self.context)
        self._tasks.append(task)
        return task

    def die(self) -> None:
        self.is_alive = False

    def bury(self) -> None:
        """Close what was left suspended, after the run, when it can do no harm."""
        self.die()
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                suspended = task.get_coro()
                assert isinstance(suspended, Coroutine)
                suspended.close()


class SimulatedLoop(asyncio.BaseEventLoop):
    def __init__(self, seed: int, budget_s: float) -> None:
        super().__init__()
        self._now_s = 0.0
        self._budget_s = budget_s
        self._random = Random(f"schedule {seed}")
        self.callback_count = 0
        self.running: Process | None = None
        """To whom the running callback belongs; None: to no process, or to none that can die."""

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        ready = self._ready  # type: ignore[attr-defined]
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if not ready:
            self._jump_to_next_timer(scheduled)
        while scheduled and scheduled[0].when() <= self._now_s:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            ready.append(handle)
        tick = list(ready)
        ready.clear()
        if len(tick) > 1:
            self._random.shuffle(tick)
        for handle in tick:
            if not is_live(handle):
                continue
            self.running = owner(handle)
            if self.running is not None and self.running.is_frozen:
                self.running.held_back.append(handle)
                continue
            self.callback_count += 1
            handle._run()

    def run_in_executor(  # type: ignore[override]  # Nobody here names an executor.
        self, executor: Any, func: Callable[..., Result], *args: Any
    ) -> "asyncio.Future[Result]":
        """There are no threads: it is done in a callback of its own."""
        answer: asyncio.Future[Result] = self.create_future()
        self.call_soon(settle, answer, func, *args)
        return answer

    def freeze(self, process: Process, duration_s: float) -> None:
        """Let it do nothing for a while, as SIGSTOP does, or a machine that sleeps."""
        process.is_frozen = True
        self.call_later(duration_s, self.thaw, process, context=Context())

    def thaw(self, process: Process) -> None:
        process.is_frozen = False
        held_back, process.held_back = process.held_back, []
        self._ready.extend(held_back)  # type: ignore[attr-defined]

    def _jump_to_next_timer(self, scheduled: list[asyncio.TimerHandle]) -> None:
        while scheduled and not is_live(scheduled[0]):
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
        if not scheduled:
            raise Deadlock
        self._now_s = max(self._now_s, scheduled[0].when())
        if self._now_s > self._budget_s:
            raise OutOfTime(f"{self._now_s:.1f} s of {self._budget_s:.1f} simulated seconds")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes; counting them is not worth it."""

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets here."""

    def _write_to_self(self) -> None:
        """There are no other threads to wake this one."""


def settle(answer: "asyncio.Future[Result]", function: Callable[..., Result], *args: Any) -> None:
    """With what the function gives or raises, unless nobody waits any more."""
    if answer.cancelled():
        return
    try:
        answer.set_result(function(*args))
    except Exception as error:  # noqa: BLE001 - whatever it is, who waits must hear of it.
        answer.set_exception(error)


def is_live(handle: asyncio.Handle) -> bool:
    if handle.cancelled():
        return False
    process = owner(handle)
    return process is None or process.is_alive


def owner(handle: asyncio.Handle) -> Process | None:
    context: Context = handle._context  # type: ignore[attr-defined]
    return context.get(_process)


def simulate(
    seed: int, main: Callable[[], Coroutine[Any, Any, Result]], budget_s: float = 3600.0
) -> Result:
    """Run it to its end in simulated time. Raises Deadlock or OutOfTime if it has none."""
    loop = SimulatedLoop(seed, budget_s)
    asyncio.set_event_loop(loop)
    # A run is short, and looking for garbage takes a fifth of its time.
    gc.disable()
    try:
        return loop.run_until_complete(main())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        gc.enable()


class _InOrder(dict[Any, None]):
    """As much of a set as a task group needs."""

    def add(self, element: Any) -> None:
        self[element] = None

    def discard(self, element: Any) -> None:
        self.pop(element, None)


class _TaskGroup(asyncio.TaskGroup):
    def __init__(self) -> None:
        super().__init__()
        self._tasks = _InOrder()  # type: ignore[assignment]


@contextlib.contextmanager
def task_groups_in_order() -> Iterator[None]:
    """A task group cancels its tasks in the order of their addresses; here, in that in which they
    were started, so that a seed gives the same run each time."""
    original = asyncio.TaskGroup
    asyncio.TaskGroup = _TaskGroup  # type: ignore[misc]
    try:
        yield
    finally:
        asyncio.TaskGroup = original  # type: ignore[misc]


class SimulatedClock:
    """The loop's time, and a wall clock that someone may set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.error_ms = 0
        """How far the wall clock is ahead."""

    def wall_ms(self) -> int:
        return START_MS + self.error_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)


class SeededRandomness:
    def __init__(self, seed: object) -> None:
        self._random = Random(f"tokens {seed}")

    def token_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)


class Trace:
    """A fingerprint of everything that happened in a run: two runs of one seed must agree in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, what: str, content: bytes = b"") -> None:
        self._digest.update(f"{self._loop.time():.9f} {what} {len(content)} ".encode())
        self._digest.update(content)

    @property
    def fingerprint(self) -> str:
        return self._digest.hexdigest()

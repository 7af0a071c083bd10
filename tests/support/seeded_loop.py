"""An asyncio loop with simulated time: it never sleeps, and one seed gives one schedule."""

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from semel.verify.world.loop import settle

T = TypeVar("T")


class _NoSelector:
    """Instead of waiting for events it lets the time pass."""

    def __init__(self, loop: "SeededLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing is scheduled, yet the run is not over")
        self._loop.now_s += max(timeout, 0)
        return []

    def close(self) -> None:
        pass


class SeededLoop(asyncio.BaseEventLoop):
    def __init__(self, rng: Random) -> None:
        super().__init__()
        self.now_s = 0.0
        self._rng = rng
        self._selector = _NoSelector(self)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self.now_s

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(  # type: ignore[override]  # Nobody here names an executor.
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """There are no threads: it is done in a callback of its own."""
        answer: asyncio.Future[T] = self.create_future()
        self.call_soon(settle, answer, func, *args)
        return answer

    def _run_once(self) -> None:
        """Callbacks that are ready together run in any order."""
        ready = self._ready  # type: ignore[attr-defined]
        if len(ready) > 1:
            callbacks = list(ready)
            self._rng.shuffle(callbacks)
            ready.clear()
            ready.extend(callbacks)
        super()._run_once()  # type: ignore[misc]

    def forget_all(self) -> None:
        """The process that ran here is dead: nothing that it planned happens."""
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        heapq.heapify(self._scheduled)  # type: ignore[attr-defined]


def run(rng: Random, main: Coroutine[Any, Any, T]) -> T:
    loop = SeededLoop(rng)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


async def elapse(duration_s: float) -> None:
    """Let simulated time pass, which takes none."""
    assert isinstance(asyncio.get_running_loop(), SeededLoop)
    await asyncio.sleep(duration_s)

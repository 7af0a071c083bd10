"""The tasks of a simulated run, and what goes on without one, closed in the end.

Those of the dead are never woken again. Were they collected while the run goes on, what they have
open would be closed by the collector, on tasks that are half gone by then.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from semel.at_once import Run, Runs

CLOSINGS_MAX: Final = 10


class Suspended:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on it holds all of them."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._runs: list[Run[Any]] = []
        loop.set_task_factory(self._hold)  # type: ignore[arg-type]
        Runs.on_begun = self._runs.append

    def _hold(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **how: Any
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=loop, **how)
        self._tasks.append(task)
        return task

    def close(self) -> None:
        """After the run, when it can do no harm."""
        Runs.on_begun = None
        for run in self._runs:
            run.detach()
        for run in self._runs:
            if not run.done() and not run.has_task:
                _close(run.work)
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
                suspended = task.get_coro()
                assert isinstance(suspended, Coroutine)
                _close(suspended)


def _close(suspended: Coroutine[Any, Any, Any]) -> None:
    """What waits again for the end of others, as a group does for its tasks, is closed there."""
    for _ in range(CLOSINGS_MAX):
        try:
            suspended.close()
        except RuntimeError:
            continue
        except (asyncio.CancelledError, BaseExceptionGroup):
            pass
        return

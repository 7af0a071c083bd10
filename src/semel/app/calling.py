"""Carrying out the steps of a cycle: in the thread of a member, or on its loop."""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from semel.app.cycle import CycleOutcome, Steps
from semel.app.outbox import Outbox

_Result = TypeVar("_Result")

Call = Callable[[Any, Outbox], Any]


class OwnThread:
    """The thread of a member, in which a function of its listener may take as long as it likes.

    A daemon: a function that never returns must not keep the process when its application has
    ended, as a thread of an executor would.
    """

    def __init__(self, name: str) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, function: Callable[[], _Result]) -> _Result:
        done: Future[_Result] = Future()

        def work() -> None:
            if done.set_running_or_notify_cancel():
                try:
                    done.set_result(function())
                except BaseException as error:  # noqa: BLE001 - it is for whoever waits.
                    done.set_exception(error)

        self._work.put(work)
        return await asyncio.wrap_future(done)

    def end(self) -> None:
        """After what is in work, without waiting for it."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def in_thread(steps: Steps, call: Call) -> CycleOutcome:
    error: Exception | None = None
    while True:
        try:
            arguments = steps.send(error)
        except StopIteration as end:
            outcome: CycleOutcome = end.value
            return outcome
        try:
            _check(call(*arguments))
        except asyncio.CancelledError as raised:
            error = _cancelled(raised)
        except Exception as raised:  # noqa: BLE001 - what becomes of the record is decided there.
            error = raised
        else:
            error = None


async def on_loop(steps: Steps, call: Call) -> CycleOutcome:
    error: Exception | None = None
    while True:
        try:
            arguments = steps.send(error)
        except StopIteration as end:
            outcome: CycleOutcome = end.value
            return outcome
        try:
            await call(*arguments)
        except asyncio.CancelledError as raised:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            error = _cancelled(raised)
        except Exception as raised:  # noqa: BLE001 - as above.
            error = raised
        else:
            error = None


def _cancelled(raised: asyncio.CancelledError) -> Exception:
    """Something that the function waited for was cancelled, and not the member."""
    error = RuntimeError("the function was cancelled from within")
    error.__cause__ = raised
    return error


def _check(returned: object) -> None:
    if returned is not None and inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()
        raise TypeError("the function returned something to await: declare it with `async def`")
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise TypeError("the function returned a generator, which has done nothing yet")

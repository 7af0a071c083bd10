"""Carrying out the steps of a turn: in the thread of a member, or on its loop."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from semel.app.outbox import Outbox
from semel.app.turn import Outcome, Steps

Call = Callable[[Any, Outbox], Any]


def in_thread(steps: Steps, call: Call) -> Outcome:
    error: Exception | None = None
    while True:
        try:
            arguments = steps.send(error)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        try:
            _check(call(*arguments))
        except asyncio.CancelledError as raised:
            error = _cancelled(raised)
        except Exception as raised:  # noqa: BLE001 - what becomes of the record is decided there.
            error = raised
        else:
            error = None


async def on_loop(steps: Steps, call: Call) -> Outcome:
    error: Exception | None = None
    while True:
        try:
            arguments = steps.send(error)
        except StopIteration as end:
            outcome: Outcome = end.value
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

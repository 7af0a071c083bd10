"""Trying again what a cluster in motion refuses: with growing pauses, until time is up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from semel.errors import RequestError

_Result = TypeVar("_Result")

_PAUSE_FIRST_S = 0.05
_PAUSE_MAX_S = 1.0


async def retrying(
    attempt: Callable[[], Awaitable[_Result]],
    *,
    timeout_ms: int,
    between: Callable[[], Awaitable[object]] | None = None,
) -> _Result:
    """The result of the first attempt that is not refused for a passing reason.

    `between` runs before each further attempt, to learn what has changed; it may be refused too.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    pause_s = _PAUSE_FIRST_S
    is_refused = False
    while True:
        try:
            if is_refused and between is not None:
                await between()
            return await attempt()
        except RequestError as error:
            if not error.retriable or loop.time() + pause_s > deadline:
                raise
        is_refused = True
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)

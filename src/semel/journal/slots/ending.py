"""Ends with something to wait for, whatever came before them.

They are apart from what is compiled, where nothing may be waited for while an error is on its way
(`setup.py`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def do_until(over: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Does it, or as much of it as can be done before that is set."""
    loop = asyncio.get_running_loop()
    doing = loop.create_task(work)
    ended = loop.create_task(_wait(over))
    try:
        await asyncio.wait((doing, ended), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended.cancel()
        doing.cancel()
        await asyncio.wait((doing, ended))
    if not doing.cancelled():
        doing.result()


async def do_and_stop(
    work: Coroutine[Any, Any, None] | None, stop: Callable[[], list[asyncio.Task[None]]]
) -> None:
    """Stops however the work ends, and waits for the tasks that end thereby."""
    try:
        if work is not None:
            await work
    finally:
        tasks = stop()
        if tasks:
            await asyncio.wait(tasks)


async def _wait(event: asyncio.Event) -> None:
    await event.wait()

"""Looks at what is counted and not told, until it is so; pytest's timeout bounds the wait."""

import asyncio
from collections.abc import Callable

_PAUSE_S = 0.01


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - nobody tells.
        await asyncio.sleep(_PAUSE_S)

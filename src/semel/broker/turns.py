"""Turns of the loop that searches through the log share among them.

A search reads batch after batch. However many there are, in each turn of the loop at most one of
them takes a step, so that all others wait for one step and not for as many as there are searches.
"""

import asyncio
from typing import Final

BATCHES_AT_ONCE: Final = 16
"""Batches that a search looks at in one step."""


class Turns:
    def __init__(self) -> None:
        self._taken = asyncio.Lock()

    async def next(self) -> None:
        """Return when the caller may take a step; whoever has waited longest comes first."""
        await self._taken.acquire()
        asyncio.get_running_loop().call_soon(self._taken.release)

"""Rule 31: what is freed behind a checkpoint, and in which order.

    Checkpoint first; then delete only data that counts, behind it. Fences, seals and what does not
    count stay: a leader that was away looks at the slot behind its last, and must find what stands
    there.

It loses nothing if it fails or is cut short: what is left is deleted by the next who releases it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from semel.journal.slots import keys
from semel.journal.slots.calls import Calls
from semel.store.seam import StoreError

KEYS_AT_ONCE: Final = 1000
"""As many as one request of a store may name."""


class Collecting:
    def __init__(self, calls: Calls, lane: int, on_warning: Callable[[str], None]) -> None:
        self.deleted = 0
        self.on_warning = on_warning
        self._calls = calls
        self._lane = lane
        self._keys: deque[str] = deque()
        self._has_work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def slots(self, numbers: Sequence[int]) -> None:
        """Of data that counts, before the slot of a checkpoint that is there."""
        self._add([keys.slot(self._lane, number) for number in numbers])

    def checkpoints(self, numbers: Sequence[int]) -> None:
        """Older ones than others that are there."""
        self._add([keys.checkpoint(self._lane, number) for number in numbers])

    def indexes(self, stretches: Sequence[tuple[int, int]]) -> None:
        self._add([keys.index(self._lane, *each) for each in stretches])

    def _add(self, names: list[str]) -> None:
        if names:
            self._keys += names
            self._idle.clear()
            self._has_work.set()

    async def run(self) -> None:
        while True:
            if not self._keys:
                self._has_work.clear()
                self._idle.set()
                await self._has_work.wait()
            some = [self._keys.popleft() for _ in range(min(KEYS_AT_ONCE, len(self._keys)))]
            try:
                await self._calls.delete(some)
            except StoreError as error:
                self.on_warning(f"{len(some)} old objects are not deleted: {error}")
            else:
                self.deleted += len(some)

    async def until_idle(self) -> None:
        await self._idle.wait()

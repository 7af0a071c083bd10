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
        self.on_warning = on_warning
        self._calls = calls
        self._lane = lane
        self._keys: deque[str] = deque()
        self._sweeps: dict[str, Callable[[str], bool]] = {}
        """By folder, which objects in it are needed no more: what one says the next says too."""
        self._has_work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def slots(self, numbers: Sequence[int]) -> None:
        """Of data that counts, before the slot of a checkpoint that is there."""
        self._add([keys.slot(self._lane, number) for number in numbers])

    def checkpoints(self, numbers: Sequence[int]) -> None:
        """Older ones than others that are there."""
        self._add([keys.checkpoint(self._lane, number) for number in numbers])

    def indexes_before(self, position: int) -> None:
        """Of stretches that end there or before, in as many parts as they have."""
        self._sweep(keys.indexes(self._lane), lambda key: keys.ends_by(key, position))

    def checkpoints_before(self, slot: int) -> None:
        """Whosever, and their parts: nobody begins with one of them, as a newer one is there."""
        for folder in (keys.checkpoints(self._lane), keys.checkpoint_parts(self._lane)):
            self._sweep(folder, lambda key: keys.is_before(key, slot))

    def _sweep(self, folder: str, is_gone: Callable[[str], bool]) -> None:
        self._sweeps[folder] = is_gone
        self._begin()

    def _add(self, names: list[str]) -> None:
        if names:
            self._keys += names
            self._begin()

    def _begin(self) -> None:
        self._idle.clear()
        self._has_work.set()

    async def run(self) -> None:
        while True:
            if not self._keys and not self._sweeps:
                self._has_work.clear()
                self._idle.set()
                await self._has_work.wait()
            await self._list_some()
            if not self._keys:
                continue
            some = [self._keys.popleft() for _ in range(min(KEYS_AT_ONCE, len(self._keys)))]
            try:
                await self._calls.delete(some)
            except StoreError as error:
                self.on_warning(f"{len(some)} old objects are not deleted: {error}")

    async def _list_some(self) -> None:
        if self._sweeps:
            folder, is_gone = self._sweeps.popitem()
            try:
                found = await self._calls.list_all(folder)
            except StoreError as error:
                self.on_warning(f"old objects in {folder} are not deleted: {error}")
            else:
                self._keys += [each.key for each in found if is_gone(each.key)]

    async def until_idle(self) -> None:
        await self._idle.wait()

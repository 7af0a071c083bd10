"""A store around a store: what can be asked twice is asked again while the store is away.

A create is not. Who creates a slot must look at it after every error, and knows alone whether the
bytes that are there by now are its own.
"""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import Final, TypeVar

from semel.store.counting import Counting
from semel.store.seam import Store, StoreAway, StoredObject
from semel.store.settings import StoreSettings
from semel.types import Buffer

PAUSE_S_MAX: Final = 1.0
Result = TypeVar("Result")


class Retrying:
    def __init__(self, store: Store, settings: StoreSettings, random: Random) -> None:
        # What is asked again is asked of the store once more, and counted so.
        counting = Counting(store, settings.scheme)
        self.counted: Sequence[Counting] = (counting,)
        self._store = counting
        self._settings = settings
        self._random = random
        self.retry_count = 0

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._store.create(key, parts)

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        await self._store.create_large(key, pieces)

    async def get(self, key: str) -> bytes:
        return await self._persist(lambda: self._store.get(key))

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        return await self._persist(lambda: self._store.get_range(key, start, size))

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        return await self._persist(lambda: self._store.list(folder, behind))

    async def delete(self, keys: Iterable[str]) -> None:
        named = list(keys)
        await self._persist(lambda: self._store.delete(named))

    async def close(self) -> None:
        await self._store.close()

    async def _persist(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._settings.retry_s
        pause_s_max = self._settings.retry_pause_s
        while True:
            try:
                return await ask()
            except StoreAway:
                # Drawn, so that all who were turned away together do not come back together.
                pause_s = self._random.uniform(0, pause_s_max)
                if loop.time() + pause_s >= end_s:
                    raise
            self.retry_count += 1
            await asyncio.sleep(pause_s)
            pause_s_max = min(2 * pause_s_max, PAUSE_S_MAX)

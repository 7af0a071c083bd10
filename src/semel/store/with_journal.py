"""Two stores as one: the slots of journals lie in one of them, all else in the other.

What leadership rests on is the slots, so that a probe asks the store which has these.
"""

from collections.abc import AsyncIterable, Iterable, Sequence
from typing import Final

from semel.store.counting import Counted, Counting
from semel.store.seam import Store, StoredObject
from semel.types import Buffer

IN_JOURNAL: Final = ("j/", "probe/")


class WithJournal:
    def __init__(self, store: Store, journal: Store) -> None:
        self._store = store
        self._journal = journal
        if isinstance(journal, Counted):
            named = {each.name for each in store.counted} if isinstance(store, Counted) else set()
            for each in journal.counted:
                each.has_volumes = False
                if each.name in named:
                    each.name += "-journal"
        if isinstance(store, Counted):
            for each in store.counted:
                each.has_slots = False

    @property
    def counted(self) -> Sequence[Counting]:
        return [counting for each in self._both() for counting in each.counted]

    @property
    def retry_count(self) -> int:
        return sum(each.retry_count for each in self._both())

    def _both(self) -> Sequence[Counted]:
        return [each for each in (self._journal, self._store) if isinstance(each, Counted)]

    def _of(self, key: str) -> Store:
        return self._journal if key.startswith(IN_JOURNAL) else self._store

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._of(key).create(key, parts)

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        await self._of(key).create_large(key, pieces)

    async def get(self, key: str) -> bytes:
        return await self._of(key).get(key)

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        return await self._of(key).get_range(key, start, size)

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        return await self._of(folder).list(folder, behind)

    async def delete(self, keys: Iterable[str]) -> None:
        named = [*keys]
        for store in (self._journal, self._store):
            if some := [key for key in named if self._of(key) is store]:
                await store.delete(some)

    async def close(self) -> None:
        try:
            await self._journal.close()
        finally:
            await self._store.close()

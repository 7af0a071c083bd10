"""Batches of the journal by partition and offset, wherever they lie, without holding the loop up.

What is in memory is found and read at once. A search through many batches takes them a few at a
time and lets other searches and all else go between.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from semel.journal.index import BatchIndex
from semel.journal.pages import NotLoaded
from semel.journal.rows import Location
from semel.journal.seam import Journal
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.types import Buffer, Position

BATCHES_AT_ONCE: Final = 16
"""Batches that a search looks at before it pauses."""

COLD_LOOKUPS_AT_ONCE: Final = 8
"""What these have loaded stays in memory until they are done; others wait for them."""

NO_OFFSET: Final = -1
Result = TypeVar("Result")


class StoredBatches:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._index: BatchIndex = journal.index
        self._cold_lookups = asyncio.Semaphore(COLD_LOOKUPS_AT_ONCE)
        self._searching = asyncio.Lock()

    async def look_up(self, ask: Callable[[], Result]) -> Result:
        """What a lookup in the index gives; it is tried again when what it misses is loaded."""
        try:
            return ask()
        except NotLoaded as missing:
            async with self._cold_lookups:
                await self._load(missing)
                while True:
                    try:
                        return ask()
                    except NotLoaded as another:
                        await self._load(another)

    async def _load(self, missing: NotLoaded) -> None:
        try:
            missing.keep(await self._journal.read_index(missing.name, missing.offset, missing.size))
        except Exception as error:  # noqa: BLE001 - who asks again is told what it is.
            missing.fail(error)

    async def find(self, number: int, offset: int) -> Location | None:
        """The batch of this partition that holds the offset, else the first behind it."""
        return await self.look_up(lambda: self._index.find(number, offset))

    async def first_at_or_after(self, number: int, timestamp_ms: int) -> Location | None:
        return await self.look_up(lambda: self._index.first_at_or_after(number, timestamp_ms))

    async def few(
        self, number: int, start: int, end: int, behind: int = NO_OFFSET
    ) -> list[Location]:
        """The first batches from the one that holds `start`, as far as they begin below `end`.

        Who has seen some asks for those `behind` the base offset of the last. Pauses before.
        """
        await self.pause()
        found = await self.look_up(
            lambda: self._index.batches(number, max(start, behind), end, BATCHES_AT_ONCE + 1)
        )
        return [each for each in found if each.base_offset > behind][:BATCHES_AT_ONCE]

    async def pause(self) -> None:
        """Return when the caller may look at a few batches more.

        However many search, at most one of them does so in each cycle of the loop, whoever has
        waited longest: all others wait for one and not for as many as there are searches.
        """
        await self._searching.acquire()
        asyncio.get_running_loop().call_soon(self._searching.release)

    async def read(self, location: Location) -> Buffer:
        """Raises CorruptJournal or OSError."""
        return await self._journal.read(Position(location.position), location.size)

    async def header(self, location: Location) -> BatchHeader:
        return record_batch.read_header(
            await self._journal.read(Position(location.position), record_batch.HEADER_SIZE)
        )

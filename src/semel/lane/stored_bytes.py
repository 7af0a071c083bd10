"""Bytes of batches by their positions: in the journal, or in a volume."""

from bisect import bisect_left

from semel.journal.names import VOLUME_INDEX, VOLUMES_FROM
from semel.journal.seam import Journal
from semel.types import Buffer
from semel.volumes.store import VolumeStore


class StoredBytes:
    def __init__(self, journal: Journal, volumes: VolumeStore) -> None:
        self._journal = journal
        self._volumes = volumes

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        """As `read_all`, if nothing of it has to be waited for; else None."""
        if not extents or extents[-1][0] < VOLUMES_FROM:
            # Most readers are here.
            return self._journal.read_now(extents)
        settled_from = bisect_left(extents, (VOLUMES_FROM, 0))
        settled = self._volumes.read_now(extents[settled_from:])
        if settled is None or not settled_from:
            return settled
        others = self._journal.read_now(extents[:settled_from])
        return None if others is None else others + settled

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """The bytes at these positions, which rise, in these sizes.

        Raises CorruptJournal, and OSError: FileNotFoundError if they lie elsewhere by now.
        """
        settled_from = bisect_left(extents, (VOLUMES_FROM, 0))
        found = await self._journal.read_all(extents[:settled_from]) if settled_from else []
        if settled_from < len(extents):
            found = found + await self._volumes.read_all(extents[settled_from:])
        return found

    async def read(self, position: int, size: int) -> Buffer:
        (found,) = await self.read_all([(position, size)])
        return found

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        """What a lookup misses. Raises OSError."""
        if name.endswith(VOLUME_INDEX):
            return await self._volumes.read_index(name, offset, size)
        return await self._journal.read_index(name, offset, size)

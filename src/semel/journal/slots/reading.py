"""Reads of positions that are no longer in memory: ranges of slots, and of stored indexes."""

from collections.abc import Sequence

from semel.journal.runs import gather
from semel.journal.slots import keys
from semel.journal.slots.entries import ENTRY_HEADER_SIZE
from semel.journal.slots.table import Place, SlotTable
from semel.store.blocks import Blocks
from semel.types import Buffer


class Reading:
    def __init__(self, blocks: Blocks, lane: int, table: SlotTable) -> None:
        self._blocks = blocks
        self._lane = lane
        self._table = table

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        """As `read`, if all of it is held."""
        found: list[memoryview] = []
        for run in gather(extents, self._end_of):
            stored = self._blocks.read_now(*self._locate(run.position), run.size)
            if stored is None:
                return None
            found += run.cut(stored)
        return found

    async def read(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """Raises OSError: FileNotFoundError if they were given up."""
        found: list[memoryview] = []
        for run in gather(extents, self._end_of):
            found += run.cut(await self._blocks.read(*self._locate(run.position), run.size))
        return found

    async def read_past(self, position: int, size: int) -> list[Buffer]:
        """Whatever lies there, over as many slots as it does, for who reads it once. Raises as
        `read`."""
        found: list[Buffer] = []
        while size:
            its_size = min(size, self._end_of(position) - position)
            found.append(await self._blocks.read_past(*self._locate(position), its_size))
            position += its_size
            size -= its_size
        return found

    def confirmed(self, slot: int, content: Sequence[Buffer]) -> None:
        """It is known to be ours."""
        self._blocks.put(keys.slot(self._lane, slot), content)

    def _end_of(self, position: int) -> int:
        return self._place(position).end

    def _locate(self, position: int) -> tuple[str, int]:
        place = self._place(position)
        start = ENTRY_HEADER_SIZE + position - place.first_position
        return keys.slot(self._lane, place.slot), start

    def _place(self, position: int) -> Place:
        place = self._table.find(position)
        if place is None:
            raise FileNotFoundError(f"byte {position} of lane {self._lane} was given up")
        return place

"""Reads of positions that are no longer in memory: ranges of slots, and of stored indexes.

What was read is held by the block, as many blocks as fit into a bound. A block is of an object that
is confirmed, and so never changes while the journal is ours.

A cache on a disk (rule 34) belongs between the blocks and the store: written when a slot is
confirmed, under the epoch, and cut when the lane steps down.
"""

from collections import OrderedDict
from typing import Final

from semel.journal.runs import gather
from semel.journal.slots import keys
from semel.journal.slots.calls import Calls
from semel.journal.slots.entries import ENTRY_HEADER_SIZE
from semel.journal.slots.table import Place, SlotTable
from semel.store.seam import StoreError
from semel.types import Buffer

BLOCK_SIZE: Final = 1 << 20
"""Read at once: mostly what is asked for next lies behind."""


class Reading:
    def __init__(self, calls: Calls, lane: int, table: SlotTable, bytes_max: int) -> None:
        self.gets = 0
        self.hits = 0
        """Reads that needed none."""
        self._calls = calls
        self._lane = lane
        self._table = table
        self._bytes_max = bytes_max
        self._bytes_held = 0
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        """By object and number."""

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        """As `read`, if all of it is held."""
        found: list[memoryview] = []
        for run in gather(extents, self._end_of):
            stored = self._held(*self._locate(run.position), run.size)
            if stored is None:
                return None
            found += run.cut(stored)
        return found

    async def read(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """Raises OSError: FileNotFoundError if they were given up."""
        found: list[memoryview] = []
        for run in gather(extents, self._end_of):
            found += run.cut(await self.read_object(*self._locate(run.position), run.size))
        return found

    async def read_object(self, key: str, start: int, size: int) -> Buffer:
        """Raises OSError: FileNotFoundError if it was given up."""
        held = self._held(key, start, size)
        if held is not None:
            return held
        first, last = start // BLOCK_SIZE, (start + size - 1) // BLOCK_SIZE
        begin = first * BLOCK_SIZE
        self.gets += 1
        try:
            stored = await self._calls.get_range(key, begin, (last + 1 - first) * BLOCK_SIZE)
        except StoreError as error:
            raise OSError(f"{key} cannot be read: {error}") from error
        if stored is None:
            raise FileNotFoundError(f"{key} was given up")
        if len(stored) < start - begin + size:
            raise OSError(f"{key}: {len(stored)} bytes from {begin} on are there")
        for number in range(first, last + 1):
            at = (number - first) * BLOCK_SIZE
            self._keep((key, number), bytes(stored[at : at + BLOCK_SIZE]))
        return stored[start - begin : start - begin + size]

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

    def _held(self, key: str, start: int, size: int) -> bytes | None:
        first, last = start // BLOCK_SIZE, (start + size - 1) // BLOCK_SIZE
        parts: list[bytes] = []
        for number in range(first, last + 1):
            block = self._blocks.get((key, number))
            if block is None:
                return None
            self._blocks.move_to_end((key, number))
            parts.append(block)
        self.hits += 1
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        skip = start - first * BLOCK_SIZE
        return whole[skip : skip + size]

    def _keep(self, name: tuple[str, int], block: bytes) -> None:
        if name not in self._blocks:
            self._bytes_held += len(block)
        self._blocks[name] = block
        while self._bytes_held > self._bytes_max and len(self._blocks) > 1:
            _, dropped = self._blocks.popitem(last=False)
            self._bytes_held -= len(dropped)

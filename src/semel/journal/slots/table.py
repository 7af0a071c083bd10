"""In which slot each position of the journal lies."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple


class Place(NamedTuple):
    slot: int
    first_position: int
    end: int


class SlotTable:
    """Of the data slots that count and were not given up, in their order."""

    def __init__(self) -> None:
        self._slots = array("q")
        self._firsts = array("q")
        self._ends = array("q")

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, slot: int, first_position: int, end: int) -> None:
        assert not self._slots or (slot > self._slots[-1] and first_position >= self._ends[-1])
        self._slots.append(slot)
        self._firsts.append(first_position)
        self._ends.append(end)

    @property
    def oldest(self) -> int | None:
        return self._slots[0] if self._slots else None

    @property
    def stored_bytes(self) -> int:
        """From the oldest to the newest position."""
        return self._ends[-1] - self._firsts[0] if self._slots else 0

    def find(self, position: int) -> Place | None:
        """The slot that holds it; None if that was given up, or was never there."""
        number = bisect_right(self._firsts, position) - 1
        if number < 0 or position >= self._ends[number]:
            return None
        return Place(self._slots[number], self._firsts[number], self._ends[number])

    def collectable(self, position: int, boundary: int) -> list[int]:
        """The slots that hold nothing from this position on, and lie before the boundary.

        All of them are data that counts: fences, seals and what does not count stay (rule 31), as
        they tell whoever was away that others have led since.
        """
        count = min(bisect_right(self._ends, position), bisect_left(self._slots, boundary))
        return self._slots[:count].tolist()

    def forget(self, count: int) -> None:
        """The oldest."""
        for column in (self._slots, self._firsts, self._ends):
            del column[:count]

    def columns_before(self, slot: int) -> "tuple[array[int], array[int], array[int]]":
        count = bisect_left(self._slots, slot)
        return self._slots[:count], self._firsts[:count], self._ends[:count]

    def replace_before(self, slot: int, older: "SlotTable") -> None:
        """What is known of the slots before this one, some of which were given up."""
        count = bisect_left(self._slots, slot)
        columns = (self._slots, self._firsts, self._ends)
        for column, before in zip(columns, older.columns_before(slot), strict=True):
            column[:count] = before

    @classmethod
    def of(cls, slots: Sequence[int], firsts: Sequence[int], ends: Sequence[int]) -> "SlotTable":
        table = cls()
        table._slots, table._firsts, table._ends = (
            array("q", column) for column in (slots, firsts, ends)
        )
        return table

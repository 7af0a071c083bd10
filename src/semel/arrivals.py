"""Things in the order in which they came, to be gone through while others come and go.

A dict that changes cannot be gone through in pieces, and a copy of it takes the longer the more
there is. Here each thing has a number. Law: numbers rise and are never used again, so that who goes
through them knows what was there before it began.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

Thing = TypeVar("Thing")

CHUNK_SHIFT: Final = 6
"""Numbers that differ in no other bits stand in one chunk."""
_SLOTS: Final = 1 << CHUNK_SHIFT


class Arrivals(Generic[Thing]):
    __slots__ = ("_chunks", "_counts", "_keys", "next_number")

    def __init__(self) -> None:
        self.next_number = 0
        self._chunks: dict[int, list[Thing | None]] = {}
        self._counts: dict[int, int] = {}
        """Of the things in each chunk. Law: there is no empty one but the newest."""
        self._keys: list[int] = []
        """Rising."""

    def add(self, thing: Thing) -> int:
        """Gives its number."""
        number = self.next_number
        self.next_number = number + 1
        key = number >> CHUNK_SHIFT
        chunk = self._chunks.get(key)
        if chunk is None:
            self._chunks[key] = [thing]
            self._counts[key] = 1
            self._keys.append(key)
        else:
            chunk.append(thing)
            self._counts[key] += 1
        return number

    def remove(self, number: int) -> None:
        key = number >> CHUNK_SHIFT
        chunk = self._chunks[key]
        chunk[number & (_SLOTS - 1)] = None
        self._counts[key] -= 1
        if not self._counts[key] and len(chunk) == _SLOTS:
            del self._chunks[key]
            del self._counts[key]
            del self._keys[bisect_left(self._keys, key)]

    def walk(self, start: int = 0) -> Iterator[tuple[int, Thing]]:
        """Each with its number, from a number on; none that has gone when its turn comes."""
        key, slot = (start >> CHUNK_SHIFT) - 1, start & (_SLOTS - 1)
        while True:
            at = bisect_right(self._keys, key)
            if at == len(self._keys):
                return
            if self._keys[at] > start >> CHUNK_SHIFT:
                slot = 0
            key = self._keys[at]
            chunk = self._chunks[key]
            # It may grow meanwhile.
            while slot < len(chunk):
                thing = chunk[slot]
                if thing is not None:
                    yield (key << CHUNK_SHIFT) + slot, thing
                slot += 1

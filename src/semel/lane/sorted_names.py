"""Names in their order, to be gone through from any of them on while others come and go.

One sorted list would be moved by each that comes, and sorted anew by each that asks.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Final

CHUNK_MAX: Final = 512


class SortedNames:
    def __init__(self) -> None:
        self._chunks: list[list[str]] = []
        """Each in order, and behind the one before. Law: there is no empty one."""
        self._firsts: list[str] = []
        """Of the chunks."""

    def add(self, name: str) -> None:
        """Add a name that is not there yet."""
        if not self._chunks:
            self._chunks.append([name])
            self._firsts.append(name)
            return
        at = self._chunk_of(name)
        chunk = self._chunks[at]
        insort(chunk, name)
        if len(chunk) > CHUNK_MAX:
            half = CHUNK_MAX // 2
            self._chunks[at : at + 1] = [chunk[:half], chunk[half:]]
            self._firsts.insert(at + 1, chunk[half])
        self._firsts[at] = chunk[0]

    def remove(self, name: str) -> None:
        at = self._chunk_of(name)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, name)]
        if chunk:
            self._firsts[at] = chunk[0]
        else:
            del self._chunks[at], self._firsts[at]

    def walk(self, first: str = "") -> Iterator[str]:
        """From this one on, be it there or not. One that goes meanwhile may be given, and one that
        comes may not."""
        some = self._some(first, bisect_left)
        while some:
            yield from some
            some = self._some(some[-1], bisect_right)

    def _some(self, name: str, start_of: Callable[[list[str], str], int]) -> list[str]:
        """As many from there on as stand in one chunk."""
        at = self._chunk_of(name)
        for chunk in self._chunks[at : at + 2]:
            found = chunk[start_of(chunk, name) :]
            if found:
                return found
        return []

    def _chunk_of(self, name: str) -> int:
        return max(0, bisect_right(self._firsts, name) - 1)

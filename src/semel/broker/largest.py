"""The largest of very many values, which are shown to it one by one."""

import heapq
from typing import Generic, TypeVar

Name = TypeVar("Name", str, tuple[str, str])


class Largest(Generic[Name]):
    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._heap: list[tuple[float, Name]] = []

    def add(self, name: Name, value: float) -> None:
        """Each name once."""
        if len(self._heap) < self._count_max:
            heapq.heappush(self._heap, (value, name))
        elif self._heap and (value, name) > self._heap[0]:
            heapq.heapreplace(self._heap, (value, name))

    def names(self) -> list[Name]:
        """The largest first."""
        return [name for _, name in sorted(self._heap, key=_largest_first)]


def _largest_first(found: tuple[float, object]) -> float:
    return -found[0]

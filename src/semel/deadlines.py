"""Which id is to be looked at next, without looking at all of them.

A deadline that moves to a later time leaves its entry where it was: the id is then looked at early,
nothing is due, and it is entered again. So a heartbeat costs nothing here, and thousands of short
transactions of one id cost one entry.
"""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Id = TypeVar("Id", bound=str)


class Deadlines(Generic[Id]):
    """At most one useful entry for each id."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Id]] = []
        self._scheduled_ms: dict[Id, int] = {}

    def __repr__(self) -> str:
        return f"Deadlines({self._scheduled_ms})"

    def schedule(self, named: Id, deadline_ms: int) -> None:
        scheduled_ms = self._scheduled_ms.get(named)
        if scheduled_ms is None or deadline_ms < scheduled_ms:
            self._scheduled_ms[named] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, named))

    def due(self, now_ms: int) -> Id | None:
        """The id to look at first, if its time has come; it stays so until it is taken."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            deadline_ms, named = heap[0]
            if self._scheduled_ms.get(named) == deadline_ms:
                return named
            heapq.heappop(heap)
        return None

    def all_due(self, now_ms: int) -> Iterator[Id]:
        """Every id whose time has come, earliest first. They stay so, as nothing is changed."""
        heap = self._heap
        seen: set[Id] = set()
        # What stands behind an entry of a heap is not earlier, so that only those entries are
        # looked at which are due, and the ones right behind them.
        ahead = [(heap[0], 0)] if heap else []
        while ahead:
            (deadline_ms, named), index = heapq.heappop(ahead)
            if deadline_ms > now_ms:
                return
            if self._scheduled_ms.get(named) == deadline_ms and named not in seen:
                seen.add(named)
                yield named
            for behind in (2 * index + 1, 2 * index + 2):
                if behind < len(heap):
                    heapq.heappush(ahead, (heap[behind], behind))

    def take(self, named: Id) -> None:
        """It is being looked at, and scheduled anew if need be."""
        self._scheduled_ms.pop(named, None)

    def take_due(self, now_ms: int) -> list[Id]:
        """Take every id whose time has come, earliest first."""
        taken: list[Id] = []
        while (named := self.due(now_ms)) is not None:
            self.take(named)
            taken.append(named)
        return taken

    def next_ms(self) -> int | None:
        """Nothing is due before this."""
        return self._heap[0][0] if self._heap else None

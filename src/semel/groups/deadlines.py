"""Which group is to be looked at next, without looking at all of them.

A deadline that moves to a later time leaves its entry where it was: the group is then looked at
early, nothing is due, and it is entered again. So a heartbeat costs nothing here.
"""

import heapq

from semel.groups.group import Group
from semel.types import GroupId


class Deadlines:
    def __init__(self) -> None:
        self._heap: list[tuple[int, GroupId]] = []

    def schedule(self, group: Group) -> None:
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is None:
            return
        if group.scheduled_ms is None or deadline_ms < group.scheduled_ms:
            group.scheduled_ms = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, group.group_id))

    def due(self, now_ms: int) -> GroupId | None:
        """The group of the earliest entry, if that is not in the future."""
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        return self._heap[0][1]

    def take(self) -> None:
        heapq.heappop(self._heap)

    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

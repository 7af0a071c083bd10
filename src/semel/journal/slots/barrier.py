"""Rule 18: who may say something that no entry of its own makes true.

    Every PUT begun earlier is confirmed, then a GET, begun after the request, of the slot behind
    them finds it free, or finds an entry of our own that was begun since. Instead of the GET a PUT
    counts, if its first attempt began after the request.

That a PUT is confirmed says nothing by itself: it may have landed before another's fence, or again
in a slot that was collected. That fences are never collected is what the GET rests on (rule 31).
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from semel.types import Position


class Waiting(NamedTuple):
    begun: int
    """What had been begun when it was asked for: none of it proves anything."""
    end: Position
    """What had been appended."""
    asked_s: float
    callback: Callable[[], None]


class Barriers:
    """Who waits, and whom a proof releases. Begun is counted, as time would be too coarse."""

    def __init__(self) -> None:
        self._begun = 0
        self._waiting: deque[Waiting] = deque()
        self.passed_count = 0
        self.waited_s = 0.0
        """By all who have passed, together."""
        self._untimed: list[float] = []
        """When those asked who have passed since `waited_s` was summed up."""

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self) -> int:
        """A PUT, for the first time, or a GET is begun now; returns its number."""
        self._begun += 1
        return self._begun

    def ask(self, end: Position, now_s: float, callback: Callable[[], None]) -> None:
        self._waiting.append(Waiting(self._begun, end, now_s, callback))

    @property
    def oldest_s(self) -> float | None:
        """When the one asked that waits longest."""
        return self._waiting[0].asked_s if self._waiting else None

    def proved(self, number: int, durable: Position) -> list[Callable[[], None]]:
        """Whom that releases which had this number: every PUT begun before it is confirmed."""
        released: list[Callable[[], None]] = []
        waiting = self._waiting
        while waiting and waiting[0].begun < number and waiting[0].end <= durable:
            passed = waiting.popleft()
            self._untimed.append(passed.asked_s)
            released.append(passed.callback)
        return released

    def sum_up(self, now_s: float) -> None:
        """Count those who have passed by now."""
        asked, self._untimed = self._untimed, []
        self.passed_count += len(asked)
        self.waited_s += len(asked) * now_s - sum(asked)

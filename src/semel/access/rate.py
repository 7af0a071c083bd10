"""How much was used of late, and how long whoever used too much has to wait: Kafka's arithmetic.

What is used is added up in windows. One begins with a use that comes when the last has ended, and
counts until all of it is older than all windows together; so what is used in one moment weighs on
the rate for ten seconds, as Kafka comes, and is forgotten then.
"""

from collections import deque
from typing import Final, NamedTuple

_ELAPSED_MS_MIN: Final = 1


class Windows(NamedTuple):
    """Kafka's `quota.window.num` and `quota.window.size.seconds`."""

    number: int = 11
    size_ms: int = 1_000

    @property
    def kept_ms(self) -> int:
        return self.number * self.size_ms

    @property
    def most(self) -> float:
        """How much of a quota can be used at once, if nothing was used before, and nobody waits."""
        return (self.number - 1) * self.size_ms / 1_000


class _Window:
    __slots__ = ("amount", "began_ms", "last_ms")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = self.last_ms = began_ms
        self.amount = 0.0


class Rate:
    """Of one who is counted. `now_ms` is of a clock that never goes back."""

    __slots__ = ("_kept", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._kept: deque[_Window] = deque()

    def use(self, amount: float, now_ms: int) -> None:
        kept = self._kept
        self._forget(now_ms)
        if not kept or now_ms - kept[-1].began_ms >= self._windows.size_ms:
            kept.append(_Window(now_ms))
        kept[-1].amount += amount
        kept[-1].last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        self._forget(now_ms)
        amount = sum(window.amount for window in self._kept)
        return amount * 1_000 / self._elapsed_ms(now_ms)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """So long nothing may be used, until the rate is the bound again."""
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        # Half a millisecond counts as one, as in Java.
        return int((rate - bound) / bound * self._elapsed_ms(now_ms) + 0.5)

    def is_idle(self, now_ms: int) -> bool:
        """Nothing of it counts any more: it is as one who never used anything."""
        self._forget(now_ms)
        return not self._kept

    def _elapsed_ms(self, now_ms: int) -> int:
        """The time that what was used is spread over: at least all windows but one, so that the
        first use is no great rate."""
        elapsed_ms = now_ms - self._kept[0].began_ms if self._kept else 0
        windows = self._windows
        missing = windows.number - 1 - elapsed_ms // windows.size_ms
        if missing > 0:
            elapsed_ms += missing * windows.size_ms
        return max(elapsed_ms, _ELAPSED_MS_MIN)

    def _forget(self, now_ms: int) -> None:
        kept, kept_ms = self._kept, self._windows.kept_ms
        while kept and now_ms - kept[0].last_ms >= kept_ms:
            kept.popleft()

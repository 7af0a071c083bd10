"""Those who have connected and not said yet who they are: how many, from where, and for how long.

Law: they are bounded in number, in all and of one address, and each in time. When there are too
many in all, the oldest goes: whoever means to sign in does so at once, and it is those who only
hold a place that are old.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from semel.access.origin import counted_as

End = Callable[[str], None]
"""Of a connection, for this reason."""

TOO_LONG: Final = "nobody has signed in on it in time"
DISPLACED: Final = "too many are signing in"


class Visit:
    """From the connection until somebody has come in, or has gone."""

    __slots__ = ("_is_over", "_reception", "_timer", "counted_as", "end", "host")

    def __init__(self, reception: "Reception", end: End, host: str) -> None:
        self._reception = reception
        self.end = end
        self.host = host
        self.counted_as = counted_as(host)
        self._is_over = False
        self._timer = reception.loop.call_later(reception.timeout_s, self._out_of_time)

    def _out_of_time(self) -> None:
        self.end(TOO_LONG)

    def over(self) -> None:
        """May be said again."""
        if not self._is_over:
            self._is_over = True
            self._timer.cancel()
            self._reception.left(self)


class Reception:
    """Of all listeners of a broker."""

    def __init__(self, timeout_ms: int, visits_max: int, visits_per_host_max: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.timeout_s = timeout_ms / 1000
        self._visits_max = visits_max
        self._visits_per_host_max = visits_per_host_max
        self._visits: dict[Visit, None] = {}
        """In the order in which they came."""
        self._by_host: Counter[str] = Counter()
        """By where they come from: a network of IPv6 is one."""

    def __len__(self) -> int:
        return len(self._visits)

    def arrived(self, host: str, end: End) -> Visit | None:
        """None if there are too many from there; an empty host is of one that is not known yet."""
        if host and self._by_host[counted_as(host)] >= self._visits_per_host_max:
            return None
        if len(self._visits) >= self._visits_max:
            oldest = next(iter(self._visits))
            oldest.end(DISPLACED)
            oldest.over()
        visit = Visit(self, end, host)
        self._visits[visit] = None
        self._by_host[visit.counted_as] += 1
        return visit

    def is_from(self, visit: Visit, host: str) -> bool:
        """What a proxy has said. False if there are too many from there."""
        self._forget(visit)
        visit.host, visit.counted_as = host, counted_as(host)
        self._by_host[visit.counted_as] += 1
        return self._by_host[visit.counted_as] <= self._visits_per_host_max

    def left(self, visit: Visit) -> None:
        if visit in self._visits:
            del self._visits[visit]
            self._forget(visit)

    def _forget(self, visit: Visit) -> None:
        host = visit.counted_as
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    def end_all(self) -> None:
        for visit in tuple(self._visits):
            visit.end("the broker ends")
            visit.over()

"""Noticing that nobody was ever reached: that is a wrong address, and not a cluster in motion.

A cluster that was reached once and is away now is waited for without a word.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from semel.errors import NetworkException, RequestError, RequestTimedOut, SemelError


class Reach:
    def __init__(self, timeout_ms: int, report: Callable[[SemelError], object]) -> None:
        self._timeout_s = timeout_ms / 1000
        self._report = report
        self._is_reached = False
        self._trying_since_s: float | None = None

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """What is asked of a server within it; all errors pass."""
        if self._trying_since_s is None:
            self._trying_since_s = _now_s()
        try:
            yield
        except (NetworkException, RequestTimedOut) as error:
            self._missed(error, self._trying_since_s)
            raise
        except RequestError:
            self._is_reached = True
            raise
        self._is_reached = True

    def _missed(self, error: SemelError, since_s: float) -> None:
        if not self._is_reached and _now_s() - since_s >= self._timeout_s:
            # Said again after the same time, and not at every attempt.
            self._trying_since_s = None
            self._report(error)


def _now_s() -> float:
    return asyncio.get_running_loop().time()

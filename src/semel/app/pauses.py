"""Which listeners are paused: asked and told in any thread, and before they run as well."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pauses:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paused: frozenset[str] = frozenset()
        self._watchers: list[Callable[[], object]] = []

    @property
    def paused(self) -> frozenset[str]:
        return self._paused

    def __contains__(self, listener: str) -> bool:
        return listener in self._paused

    def add(self, listeners: frozenset[str]) -> None:
        with self._lock:
            self._paused |= listeners
        self._tell()

    def remove(self, listeners: frozenset[str]) -> None:
        with self._lock:
            self._paused -= listeners
        self._tell()

    @contextmanager
    def watched(self, tell: Callable[[], object]) -> Iterator[None]:
        """Called after each change, in the thread of whoever has made it."""
        with self._lock:
            self._watchers.append(tell)
        try:
            yield
        finally:
            with self._lock:
                self._watchers.remove(tell)

    def _tell(self) -> None:
        with self._lock:
            watchers = list(self._watchers)
        for tell in watchers:
            tell()

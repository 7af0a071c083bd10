"""Orders that keep coming in: written from a thread of its own, a little ahead of the results."""

import threading

import semel
from examples.demo.orders import table_of_orders

_CHUNK = 1_000


class Feed:
    def __init__(self, topic: str, bootstrap_servers: str, count: int) -> None:
        self._topic = topic
        self._bootstrap_servers = bootstrap_servers
        self._count = count
        self._allowed = 0
        self.written = 0
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def allow(self, count: int) -> None:
        """Write up to this many."""
        with self._changed:
            self._allowed = min(max(self._allowed, count), self._count)
            self._changed.notify_all()

    def is_complete(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self.written == self._count

    def _run(self) -> None:
        try:
            while self.written < self._count:
                with self._changed:
                    self._changed.wait_for(lambda: self._allowed > self.written)
                    stop = min(self.written + _CHUNK, self._allowed)
                # Each order is stored once, also when the broker is killed meanwhile.
                semel.write(
                    self._topic,
                    table_of_orders(self.written, stop),
                    bootstrap_servers=self._bootstrap_servers,
                )
                self.written = stop
        except BaseException as error:
            self._failure = error
            raise

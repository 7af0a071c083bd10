"""The records that were given up, and whether anybody has been told.

A failure that nobody asks for is raised by the next `flush` or `close`. Few callers ask, so that
only the first failure, the last one and a count are kept, however many there are.
"""

import threading


class Failure:
    """Why the records of one batch were not stored."""

    __slots__ = ("_failures", "_told", "error", "record_count", "round")

    def __init__(self, failures: "Failures", error: Exception, record_count: int) -> None:
        self._failures = failures
        self._told: set[int] = set()
        self.error = error
        self.record_count = record_count
        self.round = failures.round

    def tell(self, index: int) -> None:
        """Somebody knows now what became of this record of the batch."""
        with self._failures.lock:
            if index not in self._told:
                self._told.add(index)
                self._failures.forget_one(self)

    @property
    def is_told(self) -> bool:
        return len(self._told) == self.record_count


class Failures:
    """Told by callers in any thread, noted in the producer's."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.round = 0
        """Counts how often all failures were told at once."""
        self._untold_count = 0
        self._first: Failure | None = None
        self._last: Failure | None = None

    def note(self, error: Exception, record_count: int) -> Failure:
        with self.lock:
            failure = Failure(self, error, record_count)
            self._untold_count += record_count
            if self._first is None or self._first.is_told:
                self._first = failure
            self._last = failure
            return failure

    def forget_one(self, failure: Failure) -> None:
        if failure.round == self.round:
            self._untold_count -= 1

    def _take(self) -> tuple[Exception, int] | None:
        """The first error that nobody was told of, and of how many records; told hereby."""
        with self.lock:
            count, first, last = self._untold_count, self._first, self._last
            self._untold_count, self._first, self._last = 0, None, None
            self.round += 1
        if count == 0 or first is None or last is None:
            return None
        return (last if first.is_told else first).error, count

    def raise_untold(self) -> None:
        untold = self._take()
        if untold is not None:
            error, count = untold
            if count > 1:
                error.add_note(f"and so {_records(count - 1)} not stored")
            raise error.with_traceback(None)

    def add_untold_to(self, error: BaseException) -> None:
        """Tell by an error that is on its way already, and must not be hidden."""
        untold = self._take()
        if untold is not None:
            first, count = untold
            error.add_note(f"and {_records(count)} not stored: {first}")


def _records(count: int) -> str:
    return "1 record was" if count == 1 else f"{count} records were"

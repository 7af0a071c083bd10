"""The records that were given up, and whether anybody has been told.

A failure that nobody asks for is raised by the next `flush` or `close`. However many there are,
some of them and their count are kept.
"""

import threading
from collections import deque

_KEPT_MAX = 100


class BatchFailure:
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
        self._kept: deque[BatchFailure] = deque()

    def note(self, error: Exception, record_count: int) -> BatchFailure:
        with self.lock:
            failure = BatchFailure(self, error, record_count)
            self._untold_count += record_count
            while self._kept and self._kept[0].is_told:
                self._kept.popleft()
            if len(self._kept) == _KEPT_MAX:
                self._kept.pop()
            self._kept.append(failure)
            return failure

    def forget_one(self, failure: BatchFailure) -> None:
        if failure.round == self.round:
            self._untold_count -= 1

    def _take(self) -> tuple[Exception, int] | None:
        """The first error that nobody was told of, and of how many records; told hereby."""
        with self.lock:
            count, kept = self._untold_count, self._kept
            self._untold_count, self._kept = 0, deque()
            self.round += 1
        if count == 0:
            return None
        # Of more than are kept, one that was told may have to stand for one that was not.
        first = next((each for each in kept if not each.is_told), kept[-1])
        return first.error, count

    def raise_untold(self) -> None:
        untold = self._take()
        if untold is not None:
            error, count = untold
            if count > 1:
                error.add_note(f"and {_records(count - 1, 'more ')} not stored")
            raise error.with_traceback(None)

    def add_untold_to(self, error: BaseException) -> None:
        """Tell by an error that is on its way already, and must not be hidden."""
        untold = self._take()
        if untold is not None:
            first, count = untold
            error.add_note(f"and {_records(count)} not stored: {first}")


def _records(count: int, more: str = "") -> str:
    return f"1 {more}record was" if count == 1 else f"{count} {more}records were"

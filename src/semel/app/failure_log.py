"""What goes wrong in a listener, told by `logging`: a line for each, and of a storm only its size.

A record that is tried again or laid aside, a batch in which one is at fault, work that could not be
committed: each with its cause. `fields` of the log record has the same, for logs that are data.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable

from semel.app.failure import Failure, in_one_line

_log = logging.getLogger("semel.app")

_SPAN_MS = 10_000
_LINES_MAX = 20
"""Of each kind within a span: enough to see what it is, and no poisoned topic fills a disk."""

RETRY = "retry"
DEAD_LETTER = "dead_letter"
DOUBT = "doubt"
SETBACK = "setback"

_NOT_LISTED = {
    RETRY: "tried again",
    DEAD_LETTER: "laid aside",
    DOUBT: "batches tried in parts",
    SETBACK: "cycles worked on again",
}


class FailureLog:
    def __init__(self, listener: str, now_ms: Callable[[], float]) -> None:
        self._listener = listener
        self._now_ms = now_ms
        self._span_began_at_ms = now_ms()
        self._told: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()

    def retried(self, failures: Iterable[Failure], attempts_max: int) -> None:
        for failure in failures:
            words = f"failed, attempt {failure.attempt} of {attempts_max}, and is tried again"
            self._tell_record(logging.WARNING, RETRY, failure, words)

    def laid_aside(self, failures: Iterable[Failure], topic: str | None) -> None:
        for failure in failures:
            often = "once" if failure.attempt == 1 else f"{failure.attempt} times"
            words = f"failed {often} and was laid aside in {topic}"
            self._tell_record(logging.ERROR, DEAD_LETTER, failure, words)

    def in_doubt(self, record_count: int, error: Exception) -> None:
        words = f"a batch of {record_count} records failed and is tried in smaller parts"
        self._tell(logging.WARNING, DOUBT, words, error, {"records": record_count})

    def set_back(self, error: Exception, *, is_of_group: bool) -> None:
        """Groups move all the time; anything else is worth a warning."""
        level = logging.INFO if is_of_group else logging.WARNING
        self._tell(level, SETBACK, "nothing of a cycle was committed, and it is done again", error)

    def tell_rest(self, *, is_over: bool = False) -> None:
        """At the end of a span, or of the listener, how many there were that no line told of."""
        now_ms = self._now_ms()
        if not is_over and now_ms < self._span_began_at_ms + _SPAN_MS:
            return
        if self._untold:
            counts = ", ".join(
                f"{count} {_NOT_LISTED[kind]}" for kind, count in self._untold.items()
            )
            span_s = round((now_ms - self._span_began_at_ms) / 1000)
            fields = {"listener": self._listener, "event": "more", **self._untold}
            _log.warning(
                "listener %s: and more in the last %d s that are not listed: %s",
                self._listener,
                span_s,
                counts,
                extra={"fields": fields},
            )
        self._span_began_at_ms = now_ms
        self._told.clear()
        self._untold.clear()

    def _tell_record(self, level: int, event: str, failure: Failure, words: str) -> None:
        record, error, attempt = failure
        fields = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "attempt": attempt,
        }
        subject = f"the record at {record.topic_partition} offset {record.offset}"
        self._tell(level, event, f"{subject} {words}", error, fields)

    def _tell(
        self,
        level: int,
        event: str,
        words: str,
        error: Exception,
        fields: dict[str, object] | None = None,
    ) -> None:
        self.tell_rest()
        if not _log.isEnabledFor(level):
            return
        if self._told[event] >= _LINES_MAX:
            self._untold[event] += 1
            return
        self._told[event] += 1
        kind, reason = type(error).__name__, in_one_line(error)
        shown = {"exception": kind, "reason": reason}
        _log.log(
            level,
            "listener %s: %s: %s: %s",
            self._listener,
            words,
            kind,
            reason,
            extra={
                "fields": {"listener": self._listener, "event": event, **(fields or {}), **shown}
            },
            # Where it was raised, for whoever looks closely; a line is enough for all others.
            exc_info=error if _log.isEnabledFor(logging.DEBUG) else None,
        )

"""What an application raised: told in words, as a record's failure, as the end of a listener."""

from typing import NamedTuple

from semel.client.consuming.record import Record
from semel.client.payloads import PayloadRefused
from semel.errors import SemelError

_LINE_SIZE_MAX = 500


def in_words(error: BaseException) -> str:
    """Its message; its type's name if it fails at telling one, since that is the author's code."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever it raises, the record's own failure is the story.
        return type(error).__name__


def in_one_line(error: BaseException) -> str:
    """Its message, which may quote a whole record, as far as it fits into a line."""
    line = " ".join(in_words(error).split())
    return line if len(line) <= _LINE_SIZE_MAX else f"{line[:_LINE_SIZE_MAX]}…"


class Failure(NamedTuple):
    record: Record
    error: Exception
    attempt: int
    """How often it has failed by now."""


class ListenerFailed(SemelError):
    """A listener stopped for good, and its application with it; `__cause__` is the reason."""

    def __init__(self, listener: str, sentence: str, reason: BaseException) -> None:
        super().__init__(f"listener {listener}: {sentence}")
        self.__cause__ = reason
        self.listener = listener
        self.is_of_function = False
        """Whether the listener's own function raised the reason."""


def failed_for_good(listener: str, failure: Failure) -> ListenerFailed:
    record, error, attempt = failure
    often = "once" if attempt == 1 else f"{attempt} times"
    failed = ListenerFailed(
        listener,
        f"the record at {record.topic_partition} offset {record.offset} failed {often}, "
        f"and there is no dead-letter topic: {type(error).__name__}: {in_words(error)}",
        error,
    )
    failed.is_of_function = not isinstance(error, PayloadRefused)
    return failed

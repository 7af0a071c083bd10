"""How a listener ends that cannot go on."""

from semel.app.turn import Failure
from semel.app.wording import in_words
from semel.errors import SemelError


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
        f"the record at {record.place} offset {record.offset} failed {often}, "
        f"and there is no dead-letter topic: {type(error).__name__}: {in_words(error)}",
        error,
    )
    failed.is_of_function = True
    return failed

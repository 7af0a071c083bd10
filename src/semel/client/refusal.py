"""Error codes of a reply, turned into exceptions that say in words what was refused."""

import re
from collections.abc import Mapping

from semel.errors import (
    BY_CODE,
    NONE,
    InvalidProducerEpoch,
    ProducerFenced,
    RequestError,
    UnknownServerError,
)

# A coordinator that ends a transaction for its age raises the epoch as a successor would.
_OLD_EPOCH = "a newer producer has its id, or its transaction outlived its timeout"
_REASONS: Mapping[type[RequestError], str] = {
    ProducerFenced: _OLD_EPOCH,
    InvalidProducerEpoch: _OLD_EPOCH,
}


def in_words(error: type[RequestError]) -> str:
    """`UnknownTopicOrPartition` as "unknown topic or partition"; with a reason, if it needs one."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", error.__name__).lower()
    reason = _REASONS.get(error)
    return name if reason is None else f"{name}: {reason}"


def refusal(code: int, subject: str = "", message: str | None = None) -> RequestError:
    """The error of this code; `subject` is what was asked for, `message` what the broker said."""
    error = BY_CODE.get(code)
    reason = message or (in_words(error) if error else f"error code {code}")
    # Some brokers name the subject in their message, others do not.
    name = re.escape(subject.rpartition(" ")[2])
    is_named = re.search(rf"(?<![\w-]){name}(?![\w-])", message or "") is not None
    sentence = reason if is_named or not subject else f"{subject}: {reason}"
    return (error or UnknownServerError)(sentence)


def raise_for(code: int, subject: str = "", message: str | None = None) -> None:
    if code != NONE:
        raise refusal(code, subject, message)

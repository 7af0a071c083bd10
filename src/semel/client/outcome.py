"""What a refusal means for the transaction it struck: try again, give this one up, or stop.

TransactionFailed
├── MustAbort           abort, and the next transaction may do better
├── MustStop            this producer can do nothing more: fenced, or never allowed
└── OutcomeUnknown      committed or not: nobody answered; its next incarnation will find out
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from semel.client import verdict
from semel.client.verdict import Kind
from semel.errors import RequestError, SemelError


class TransactionFailed(SemelError):
    """A call of a transaction was refused for good; `__cause__` is the refusal."""


class MustAbort(TransactionFailed):
    """This transaction cannot be committed."""


class MustStop(TransactionFailed):
    """This producer cannot go on."""


class OutcomeUnknown(TransactionFailed):
    """The end of the transaction was asked for, and no answer came in time."""


@contextmanager
def judging_writes(transactional_id: str) -> Iterator[None]:
    """For Produce, where an old epoch may be that of a transaction that took too long."""
    with _judging(transactional_id, verdict.from_leader):
        yield


@contextmanager
def judging_coordinator(transactional_id: str) -> Iterator[None]:
    """For calls to the coordinator, where an old epoch means that there is a newer producer."""
    with _judging(transactional_id, verdict.from_coordinator):
        yield


@contextmanager
def _judging(transactional_id: str, judge: Callable[[RequestError], Kind]) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        kind = MustStop if judge(error) is Kind.FATAL else MustAbort
        raise kind(f"transactional id {transactional_id}: {error}") from error

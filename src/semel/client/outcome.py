"""What a refusal means for the transaction it struck: try again, give this one up, or stop.

TransactionFailed
├── MustAbort           abort, and the next transaction may do better
├── MustStop            this producer can do nothing more: fenced, or never allowed
└── OutcomeUnknown      committed or not: nobody answered; its next incarnation will find out
"""

from collections.abc import Iterator
from contextlib import contextmanager

from semel.errors import (
    ClusterAuthorizationFailed,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    RequestError,
    SemelError,
    TransactionCoordinatorFenced,
    UnsupportedVersion,
)


class TransactionFailed(SemelError):
    """A call of a transaction was refused for good; `__cause__` is the refusal."""


class MustAbort(TransactionFailed):
    """This transaction cannot be committed."""


class MustStop(TransactionFailed):
    """This producer cannot go on."""


class OutcomeUnknown(TransactionFailed):
    """The end of the transaction was asked for, and no answer came in time."""


_FATAL = (
    ClusterAuthorizationFailed,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionCoordinatorFenced,
    UnsupportedVersion,
)


@contextmanager
def judging_writes(transactional_id: str) -> Iterator[None]:
    """For Produce, where an old epoch may be that of a transaction that took too long."""
    with _judging(transactional_id, _FATAL):
        yield


@contextmanager
def judging_coordinator(transactional_id: str) -> Iterator[None]:
    """For calls to the coordinator, where an old epoch means that there is a newer producer."""
    with _judging(transactional_id, (*_FATAL, InvalidProducerEpoch)):
        yield


@contextmanager
def _judging(transactional_id: str, fatal: tuple[type[RequestError], ...]) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        kind = MustStop if isinstance(error, fatal) else MustAbort
        raise kind(f"transactional id {transactional_id}: {error}") from error

"""What a refusal means for whoever was refused: try again, give this up, or stop.

One table, in the three kinds of KIP-1050. An error has a column for each of the two that can
refuse: the leader of a partition, and a coordinator. To a leader an old epoch may be that of a
transaction which took too long; to the coordinator it means that there is a newer producer.

What a user of transactions gets of it:

TransactionFailed
├── MustAbort           abort, and the next transaction may do better
├── MustStop            this producer can do nothing more: fenced, or never allowed
└── OutcomeUnknown      committed or not: nobody answered; its next incarnation will find out
"""

import enum
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from semel.errors import (
    BY_CODE,
    ClusterAuthorizationFailed,
    CorruptMessage,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    NetworkException,
    NotEnoughReplicasAfterAppend,
    OperationNotAttempted,
    ProducerFenced,
    RequestError,
    RequestTimedOut,
    SaslAuthenticationFailed,
    SemelError,
    StorageError,
    TransactionAbortable,
    TransactionCoordinatorFenced,
    UnknownServerError,
    UnsupportedForMessageFormat,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)

_MAY_BE_STORED = (
    NetworkException,
    RequestTimedOut,
    NotEnoughReplicasAfterAppend,
    StorageError,
    UnknownServerError,
)


class ErrorKind(enum.Enum):
    RETRY = "retry"
    """Nothing is lost: the library asks again."""
    ABORT = "abort"
    """These records, or this transaction, are given up; the producer goes on."""
    FATAL = "fatal"
    """The producer can do nothing more."""


class _Kinds(NamedTuple):
    from_leader: ErrorKind
    from_coordinator: ErrorKind


_RETRY = _Kinds(ErrorKind.RETRY, ErrorKind.RETRY)
_ABORT = _Kinds(ErrorKind.ABORT, ErrorKind.ABORT)
_FATAL = _Kinds(ErrorKind.FATAL, ErrorKind.FATAL)

_EXCEPTIONS: Mapping[type[RequestError], _Kinds] = {
    # Whoever is fenced has a successor, and may not go on beside it.
    ProducerFenced: _FATAL,
    InvalidProducerEpoch: _Kinds(ErrorKind.ABORT, ErrorKind.FATAL),
    InvalidProducerIdMapping: _FATAL,
    TransactionCoordinatorFenced: _FATAL,
    # These will be refused for ever.
    ClusterAuthorizationFailed: _FATAL,
    SaslAuthenticationFailed: _FATAL,
    UnsupportedSaslMechanism: _FATAL,
    InvalidTransactionState: _FATAL,
    InvalidTransactionTimeout: _FATAL,
    InvalidRequest: _FATAL,
    InvalidRequiredAcks: _FATAL,
    UnsupportedForMessageFormat: _FATAL,
    UnsupportedVersion: _FATAL,
    TransactionAbortable: _ABORT,
    # A coordinator says so of partitions whose neighbour in the request was refused.
    OperationNotAttempted: _ABORT,
    # A coordinator has no batch that could have been damaged on its way.
    CorruptMessage: _Kinds(ErrorKind.RETRY, ErrorKind.ABORT),
}

TABLE: Mapping[type[RequestError], _Kinds] = {
    error: _EXCEPTIONS.get(error, _RETRY if error.retriable else _ABORT)
    for error in BY_CODE.values()
}


def kind_from_leader(error: RequestError) -> ErrorKind:
    return _kinds(error).from_leader


def kind_from_coordinator(error: RequestError) -> ErrorKind:
    return _kinds(error).from_coordinator


def _kinds(error: RequestError) -> _Kinds:
    """A refusal of our own making is not in the table."""
    return TABLE.get(type(error), _RETRY if error.retriable else _ABORT)


def may_be_stored(error: RequestError) -> bool:
    """Whether a batch that was answered so may be in the log all the same."""
    return isinstance(error, _MAY_BE_STORED)


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
    with _judging(transactional_id, kind_from_leader):
        yield


@contextmanager
def judging_coordinator(transactional_id: str) -> Iterator[None]:
    """For calls to the coordinator, where an old epoch means that there is a newer producer."""
    with _judging(transactional_id, kind_from_coordinator):
        yield


@contextmanager
def _judging(transactional_id: str, judge: Callable[[RequestError], ErrorKind]) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        kind = MustStop if judge(error) is ErrorKind.FATAL else MustAbort
        raise kind(f"transactional id {transactional_id}: {error}") from error

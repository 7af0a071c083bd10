"""What a refusal means for whoever was refused: try again, give this up, or stop.

One table, in the three kinds of KIP-1050. An error has a column for each of the two that can
refuse: the leader of a partition, and a coordinator. To a leader an old epoch may be that of a
transaction which took too long; to the coordinator it means that there is a newer producer.
"""

import enum
from collections.abc import Mapping
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
    StorageError,
    TransactionAbortable,
    TransactionCoordinatorFenced,
    UnknownServerError,
    UnsupportedForMessageFormat,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)


class Kind(enum.Enum):
    RETRY = "retry"
    """Nothing is lost: the library asks again."""
    ABORT = "abort"
    """These records, or this transaction, are given up; the producer goes on."""
    FATAL = "fatal"
    """The producer can do nothing more."""


class Verdict(NamedTuple):
    from_leader: Kind
    from_coordinator: Kind


_RETRY = Verdict(Kind.RETRY, Kind.RETRY)
_ABORT = Verdict(Kind.ABORT, Kind.ABORT)
_FATAL = Verdict(Kind.FATAL, Kind.FATAL)

_EXCEPTIONS: Mapping[type[RequestError], Verdict] = {
    # Whoever is fenced has a successor, and may not go on beside it.
    ProducerFenced: _FATAL,
    InvalidProducerEpoch: Verdict(Kind.ABORT, Kind.FATAL),
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
    CorruptMessage: Verdict(Kind.RETRY, Kind.ABORT),
}

TABLE: Mapping[type[RequestError], Verdict] = {
    error: _EXCEPTIONS.get(error, _RETRY if error.retriable else _ABORT)
    for error in BY_CODE.values()
}

_MAY_BE_STORED = (
    NetworkException,
    RequestTimedOut,
    NotEnoughReplicasAfterAppend,
    StorageError,
    UnknownServerError,
)


def from_leader(error: RequestError) -> Kind:
    return TABLE[type(error)].from_leader


def from_coordinator(error: RequestError) -> Kind:
    return TABLE[type(error)].from_coordinator


def may_be_stored(error: RequestError) -> bool:
    """Whether a batch that was answered so may be in the log all the same."""
    return isinstance(error, _MAY_BE_STORED)

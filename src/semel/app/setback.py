"""Why the work of a turn could not be delivered, and what that means for its records."""

import enum

from semel.client.consuming.refusals import CommitFailed
from semel.client.outcome import MustStop, TransactionFailed
from semel.errors import (
    IllegalGeneration,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    InvalidTransactionState,
    MessageTooLarge,
    OutOfOrderSequence,
    PolicyViolation,
    ProducerFenced,
    RebalanceInProgress,
    RecordListTooLarge,
    RequestError,
    SemelError,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionCoordinatorFenced,
    UnknownMemberId,
    UnknownProducerId,
    UnknownServerError,
    UnknownTopicOrPartition,
)


class Meaning(enum.Enum):
    AGAIN = "the cluster or the group is in motion: the records are worked on again"
    RECORDS = "the cluster refuses what was sent: a record of the turn is at fault"
    FINAL = "it will be refused for ever"


class NotDelivered(SemelError):
    """Nothing of the turn has happened, unless it is found committed; `__cause__` is the reason."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.__cause__ = reason
        self.meaning = meaning_of(reason)
        self.is_of_group = isinstance(_refusal(reason), _OF_GROUP)
        """Whether the group has given the partitions to someone else."""


_FAULTS_OF_RECORDS = (
    InvalidRecord,
    InvalidTimestamp,
    InvalidTopic,
    MessageTooLarge,
    PolicyViolation,
    RecordListTooLarge,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)

_OF_GROUP = (CommitFailed, IllegalGeneration, RebalanceInProgress, UnknownMemberId)

_PASSING = (
    *_OF_GROUP,
    # The transactional id is this member's own, and nobody else's: the coordinator has ended a
    # transaction that took too long, or has lost what it knew of the producer.
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    OutOfOrderSequence,
    ProducerFenced,
    TransactionAbortable,
    TransactionCoordinatorFenced,
    UnknownProducerId,
    UnknownServerError,
)


def meaning_of(reason: Exception) -> Meaning:
    refusal = _refusal(reason)
    if isinstance(refusal, _FAULTS_OF_RECORDS):
        return Meaning.RECORDS
    if isinstance(refusal, RequestError):
        is_passing = refusal.retriable or isinstance(refusal, _PASSING)
        return Meaning.AGAIN if is_passing else Meaning.FINAL
    return Meaning.FINAL if isinstance(reason, MustStop) else Meaning.AGAIN


def _refusal(reason: Exception) -> BaseException | None:
    return reason.__cause__ if isinstance(reason, TransactionFailed) else reason

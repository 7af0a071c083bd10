"""The errors that several packages share, and the one place where Kafka's codes are named.

SemelError                      anything this package raises on purpose
├── ProtocolError               the peer sent bytes that cannot be accepted; close the connection
├── CorruptJournal              our own bytes on disk are wrong; stop, and name file and byte
├── NewerFormat                 a newer Semel has written this; nothing of it was touched
├── JournalFailed               a write or sync failed; the process must end
├── JournalFull                 there is no room; refuse and change nothing
│   ├── FrameTooLarge           nor would there be on an empty disk
│   └── StoreBehind             until the store has confirmed some of what is appended
├── FolderInUse                 another broker has this folder
├── CannotListen                the address is taken, or not ours
├── ConfigError                 a setting is unknown or its value is bad
├── NotInOrder                  a call that does not fit what a client is doing
└── RequestError                the request is refused; reply with `code`
    └── one class per code below, named as Kafka names it

An error that only one package knows how to raise is a child of one of these and lives in that
package: `client`, `app`, `spark` and `testing` have some.
"""

from typing import ClassVar

MESSAGE_LENGTH_MAX = 1_000
"""Characters of a refusal that its client is shown."""


class SemelError(Exception):
    """Base of every error raised on purpose by this package."""


class ProtocolError(SemelError):
    """The peer broke the wire protocol."""


class AccessUnknown(ProtocolError):
    """Whether this may be done cannot be told here at present. Its client asks again, perhaps
    elsewhere, and has learned nothing."""


class CorruptJournal(SemelError):
    """Stored bytes failed a check: damage, not an unfinished write."""


class NewerFormat(SemelError):
    """Stored bytes are whole, and of a format that this version does not know."""


class JournalFailed(SemelError):
    """The disk refused a write or a sync after room was reserved for it."""


class JournalFull(SemelError):
    """The disk has no room for this frame; nothing was changed."""


class FrameTooLarge(JournalFull):
    """What was asked for takes more bytes than a frame may have; asking again is of no use."""


class StoreBehind(JournalFull):
    """The store has to confirm first some of what was appended; asking again is of use."""


class StorageAway(OSError):
    """What old data lies on cannot be reached. Nothing is known to be damaged."""


class FolderInUse(SemelError):
    """Another process holds the data folder."""


class CannotListen(SemelError):
    """The address is taken, or is not one of this machine."""


class ConfigError(SemelError):
    """A setting that does not exist, or a value that it cannot have."""


class NotInOrder(SemelError):
    """A call that does not fit: two transactions at once, a commit without one, a late poll."""


class RequestError(SemelError):
    """A refusal that the client is told by its Kafka error code."""

    code: ClassVar[int]
    retriable: ClassVar[bool] = False

    def __str__(self) -> str:
        # Many messages quote what the client sent, and older replies hold 32,767 bytes of text.
        return super().__str__()[:MESSAGE_LENGTH_MAX]


class UnknownServerError(RequestError):
    code = -1


class OffsetOutOfRange(RequestError):
    code = 1


class CorruptMessage(RequestError):
    code = 2
    retriable = True


class UnknownTopicOrPartition(RequestError):
    code = 3
    retriable = True


class LeaderNotAvailable(RequestError):
    code = 5
    retriable = True


class NotLeaderOrFollower(RequestError):
    code = 6
    retriable = True


class RequestTimedOut(RequestError):
    code = 7
    retriable = True


class BrokerNotAvailable(RequestError):
    code = 8
    retriable = True


class MessageTooLarge(RequestError):
    code = 10


class OffsetMetadataTooLarge(RequestError):
    code = 12


class NetworkException(RequestError):
    code = 13
    retriable = True


class CoordinatorLoadInProgress(RequestError):
    code = 14
    retriable = True


class CoordinatorNotAvailable(RequestError):
    code = 15
    retriable = True


class NotCoordinator(RequestError):
    code = 16
    retriable = True


class InvalidTopic(RequestError):
    code = 17


class RecordListTooLarge(RequestError):
    code = 18


class NotEnoughReplicas(RequestError):
    code = 19
    retriable = True


class NotEnoughReplicasAfterAppend(RequestError):
    code = 20
    retriable = True


class InvalidRequiredAcks(RequestError):
    code = 21


class IllegalGeneration(RequestError):
    code = 22


class InconsistentGroupProtocol(RequestError):
    code = 23


class InvalidGroupId(RequestError):
    code = 24


class UnknownMemberId(RequestError):
    code = 25


class InvalidSessionTimeout(RequestError):
    code = 26


class RebalanceInProgress(RequestError):
    code = 27


class InvalidCommitOffsetSize(RequestError):
    code = 28


class TopicAuthorizationFailed(RequestError):
    code = 29


class GroupAuthorizationFailed(RequestError):
    code = 30


class ClusterAuthorizationFailed(RequestError):
    code = 31


class InvalidTimestamp(RequestError):
    code = 32


class UnsupportedSaslMechanism(RequestError):
    code = 33


class IllegalSaslState(RequestError):
    code = 34


class UnsupportedVersion(RequestError):
    code = 35


class TopicAlreadyExists(RequestError):
    code = 36


class InvalidPartitions(RequestError):
    code = 37


class InvalidReplicationFactor(RequestError):
    code = 38


class InvalidReplicaAssignment(RequestError):
    code = 39


class InvalidConfig(RequestError):
    code = 40


class NotController(RequestError):
    code = 41
    retriable = True


class InvalidRequest(RequestError):
    code = 42


class UnsupportedForMessageFormat(RequestError):
    code = 43


class PolicyViolation(RequestError):
    code = 44


class OutOfOrderSequence(RequestError):
    code = 45


class DuplicateSequence(RequestError):
    code = 46


class InvalidProducerEpoch(RequestError):
    code = 47


class InvalidTransactionState(RequestError):
    code = 48


class InvalidProducerIdMapping(RequestError):
    code = 49


class InvalidTransactionTimeout(RequestError):
    code = 50


class ConcurrentTransactions(RequestError):
    code = 51
    retriable = True


class TransactionCoordinatorFenced(RequestError):
    code = 52


class TransactionalIdAuthorizationFailed(RequestError):
    code = 53


class SecurityDisabled(RequestError):
    code = 54


class OperationNotAttempted(RequestError):
    code = 55


class StorageError(RequestError):
    code = 56
    retriable = True


class SaslAuthenticationFailed(RequestError):
    code = 58


class UnknownProducerId(RequestError):
    code = 59


class NonEmptyGroup(RequestError):
    code = 68


class GroupIdNotFound(RequestError):
    code = 69


class FetchSessionIdNotFound(RequestError):
    code = 70
    retriable = True


class InvalidFetchSessionEpoch(RequestError):
    code = 71
    retriable = True


class TopicDeletionDisabled(RequestError):
    code = 73


class FencedLeaderEpoch(RequestError):
    code = 74
    retriable = True


class UnknownLeaderEpoch(RequestError):
    code = 75
    retriable = True


class UnsupportedCompressionType(RequestError):
    code = 76


class OffsetNotAvailable(RequestError):
    code = 78
    retriable = True


class MemberIdRequired(RequestError):
    code = 79
    retriable = True


class GroupMaxSizeReached(RequestError):
    code = 81


class FencedInstanceId(RequestError):
    code = 82


class GroupSubscribedToTopic(RequestError):
    code = 86


class InvalidRecord(RequestError):
    code = 87


class UnstableOffsetCommit(RequestError):
    code = 88
    retriable = True


class ProducerFenced(RequestError):
    code = 90


class ResourceNotFound(RequestError):
    code = 91


class DuplicateResource(RequestError):
    code = 92


class UnacceptableCredential(RequestError):
    code = 93


class UnknownTopicId(RequestError):
    code = 100
    retriable = True


class InconsistentTopicId(RequestError):
    code = 103
    retriable = True


class TransactionalIdNotFound(RequestError):
    code = 105


class FetchSessionTopicIdError(RequestError):
    code = 106
    retriable = True


class MismatchedEndpointType(RequestError):
    code = 114


class UnsupportedEndpointType(RequestError):
    code = 115


class TransactionAbortable(RequestError):
    code = 120


BY_CODE: dict[int, type[RequestError]] = {
    error.code: error for error in RequestError.__subclasses__()
}

NONE = 0
"""The code of success."""

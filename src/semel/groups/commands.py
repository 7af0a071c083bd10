"""What is asked of the groups of a lane, and what they answer.

The fields are those of Kafka's requests and replies; what depends on the version of a request is
said as a property of the command, so that the state machine knows no versions.
"""

from typing import NamedTuple, NewType

from semel.errors import NONE
from semel.types import GroupId, MemberId, TopicPartition

Ticket = NewType("Ticket", int)
"""Names one request to whoever sends the replies; never used twice."""

UNASKED = Ticket(0)
"""Of a command that no request has asked for, and that answers others at most."""

TOKEN_SIZE = 16
NO_MEMBER_ID = MemberId("")
NO_GENERATION = -1
NO_OFFSET = -1
DEFAULT_RETENTION_MS = -1


class Protocol(NamedTuple):
    name: str
    metadata: bytes


class Join(NamedTuple):
    group_id: GroupId
    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """JoinGroup 0 has none: the session timeout then."""
    protocol_type: str
    protocols: tuple[Protocol, ...]
    token: bytes = b""
    """Random, for the id of a new member: nobody else has or knows it. Drawn before the decision,
    which is then the same if it has to be made again."""
    returns_with_member_id: bool = True
    """JoinGroup 4+: a new dynamic member is told its id and asked to come again (KIP-394)."""
    can_skip_assignment: bool = True
    """JoinGroup 9+: a returning static leader may be told to assign nothing (KIP-814)."""


class Sync(NamedTuple):
    group_id: GroupId
    generation: int
    member_id: MemberId
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[MemberId, bytes], ...]


class Heartbeat(NamedTuple):
    group_id: GroupId
    generation: int
    member_id: MemberId
    group_instance_id: str | None


class MemberIdentity(NamedTuple):
    member_id: MemberId
    group_instance_id: str | None


class Leave(NamedTuple):
    group_id: GroupId
    members: tuple[MemberIdentity, ...]


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitOffsets(NamedTuple):
    """OffsetCommit and TxnOffsetCommit alike."""

    group_id: GroupId
    generation: int
    member_id: MemberId
    group_instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int = DEFAULT_RETENTION_MS
    """OffsetCommit 2-4 only."""
    in_transaction: bool = False
    """TxnOffsetCommit: the records are applied with the id of the producer whose it is."""


class FetchOffsets(NamedTuple):
    group_id: GroupId
    partitions: tuple[TopicPartition, ...] | None
    """None asks for everything the group has committed."""
    require_stable: bool = False


class DeleteGroups(NamedTuple):
    group_ids: tuple[GroupId, ...]


class DeleteOffsets(NamedTuple):
    group_id: GroupId
    partitions: tuple[TopicPartition, ...]


Request = Join | Sync | Heartbeat | Leave | CommitOffsets | DeleteGroups | DeleteOffsets


class ForgetTicket(NamedTuple):
    """The connection that waits for this reply is gone."""

    ticket: Ticket


class ForgetIds(NamedTuple):
    """Nobody will join under these, which were given out with MEMBER_ID_REQUIRED."""

    group_id: GroupId
    member_ids: tuple[MemberId, ...]


class ForgetTopic(NamedTuple):
    """It is being deleted."""

    topic: str


class Expire(NamedTuple):
    """Do what was due at a time: end sessions and rebalances, forget old offsets.

    What the records of one step have no room for stays due.
    """

    due_ms: int
    records_size_max: int
    """Bytes, counted as if each record were a batch of its own.

    A single record may have more, so that whoever has no room for it hears of it."""


Command = Request | ForgetTicket | ForgetIds | ForgetTopic | Expire


class JoinedMember(NamedTuple):
    member_id: MemberId
    group_instance_id: str | None
    metadata: bytes


class JoinReply(NamedTuple):
    error_code: int
    member_id: MemberId
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: MemberId = NO_MEMBER_ID
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncReply(NamedTuple):
    error_code: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatReply(NamedTuple):
    error_code: int


class LeftMember(NamedTuple):
    member_id: MemberId
    group_instance_id: str | None
    error_code: int


class LeaveReply(NamedTuple):
    """Up to LeaveGroup 2, which names one member, its error is the reply's own."""

    error_code: int
    members: tuple[LeftMember, ...] = ()


class PartitionOutcome(NamedTuple):
    partition: TopicPartition
    error_code: int


class CommitReply(NamedTuple):
    """In the order of the command's offsets."""

    partitions: tuple[PartitionOutcome, ...]


class FetchedOffset(NamedTuple):
    partition: TopicPartition
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error_code: int = NONE


class DeletedGroup(NamedTuple):
    group_id: GroupId
    error_code: int
    reason: str | None = None
    """Why it is not deleted."""


class DeleteGroupsReply(NamedTuple):
    groups: tuple[DeletedGroup, ...]


class DeleteOffsetsReply(NamedTuple):
    error_code: int
    partitions: tuple[PartitionOutcome, ...] = ()


class DescribedMember(NamedTuple):
    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupDescription(NamedTuple):
    group_id: GroupId
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


class GroupListing(NamedTuple):
    group_id: GroupId
    protocol_type: str
    state: str


Reply = (
    JoinReply
    | SyncReply
    | HeartbeatReply
    | LeaveReply
    | CommitReply
    | DeleteGroupsReply
    | DeleteOffsetsReply
)

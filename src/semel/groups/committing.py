"""Committing and reading the offsets of a group."""

from semel.errors import (
    NONE,
    IllegalGeneration,
    InvalidTopic,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    UnknownMemberId,
    UnstableOffsetCommit,
)
from semel.groups.commands import (
    DEFAULT_RETENTION_MS,
    NO_MEMBER_ID,
    CommitOffsets,
    CommitReply,
    FetchedOffset,
    FetchOffsets,
    OffsetToCommit,
    PartitionOutcome,
    Ticket,
)
from semel.groups.deciding import GroupDecision, SessionRenewed, VolatileChange, answered
from semel.groups.lasting import LastingGroup
from semel.groups.membership import Membership, State
from semel.groups.records import NO_LEADER_EPOCH, NO_TIMESTAMP, OffsetCommitted
from semel.groups.settings import STRING_BYTES_MAX, TOPIC_NAME_SIZE_MAX, GroupSettings
from semel.types import TopicPartition
from semel.world import Moment

TIMESTAMP_MS_MAX = 2**63 - 1


def check_commit(group: Membership | None, command: CommitOffsets) -> None:
    """A member commits in its generation; whoever names none may, where no one is a member.

    Up to version 2, TxnOffsetCommit could not name a member, so it may leave it out at any time.
    """
    anonymous = (
        command.generation < 0
        and command.member_id == NO_MEMBER_ID
        and command.group_instance_id is None
    )
    if group is None:
        if command.generation >= 0:
            raise IllegalGeneration(f"{command.group_id} is not a group")
        return
    if command.generation < 0 and group.state is State.EMPTY:
        return
    if not anonymous:
        group.member(command.member_id, command.group_instance_id)
        group.check_generation(command.generation)
    elif not command.in_transaction:
        raise UnknownMemberId(f"{group.group_id} has members; others may not commit")
    if group.state is State.COMPLETING_REBALANCE and not command.in_transaction:
        raise RebalanceInProgress(f"{group.group_id} awaits its assignment")


def refuse_commit(command: CommitOffsets, ticket: Ticket, error_code: int) -> GroupDecision:
    partitions = (TopicPartition(asked.topic, asked.partition) for asked in command.offsets)
    refused = tuple(PartitionOutcome(partition, error_code) for partition in partitions)
    return answered(ticket, CommitReply(refused))


def commit(
    group: Membership | None,
    command: CommitOffsets,
    ticket: Ticket,
    settings: GroupSettings,
    at: Moment,
) -> GroupDecision:
    has_own_retention = command.retention_ms != DEFAULT_RETENTION_MS
    expire_timestamp_ms = NO_TIMESTAMP
    if has_own_retention:
        expire_timestamp_ms = min(at.wall_ms + command.retention_ms, TIMESTAMP_MS_MAX)
    records = []
    partitions = []
    for asked in command.offsets:
        error_code = _refusal_code(asked, settings)
        partitions.append(
            PartitionOutcome(TopicPartition(asked.topic, asked.partition), error_code)
        )
        if error_code == NONE:
            records.append(
                OffsetCommitted(
                    command.group_id,
                    asked.topic,
                    asked.partition,
                    asked.offset,
                    # The stored format has room for a leader epoch or an expiry, not for both.
                    NO_LEADER_EPOCH if has_own_retention else asked.leader_epoch,
                    asked.metadata,
                    at.wall_ms,
                    expire_timestamp_ms,
                )
            )
    volatile: tuple[VolatileChange, ...] = ()
    member = None if group is None else group.members.get(command.member_id)
    if member is not None and records and not command.in_transaction:
        # A sign of life.
        deadline_ms = at.now_ms + member.session_timeout_ms
        volatile = (SessionRenewed(command.group_id, member.member_id, deadline_ms),)
    replies = ((ticket, CommitReply(tuple(partitions))),)
    return GroupDecision(tuple(records), replies, volatile)


def _refusal_code(asked: OffsetToCommit, settings: GroupSettings) -> int:
    if len(asked.metadata) > settings.offset_metadata_size_max:
        return OffsetMetadataTooLarge.code
    if len(asked.metadata.encode()) > STRING_BYTES_MAX:
        return OffsetMetadataTooLarge.code
    if len(asked.topic) > TOPIC_NAME_SIZE_MAX:
        return InvalidTopic.code
    return NONE


def fetch(group: LastingGroup | None, command: FetchOffsets) -> tuple[FetchedOffset, ...]:
    """Offsets that were never committed are answered with -1, also those of no group at all."""
    if group is None:
        return tuple(FetchedOffset(partition) for partition in command.partitions or ())
    partitions = command.partitions
    if partitions is None:
        # Those that are only pending matter to who requires stability, and to no one else.
        listed = group.offsets.partitions() if command.require_stable else group.offsets.committed
        partitions = tuple(sorted(listed))
    return tuple(_fetch_one(group, partition, command.require_stable) for partition in partitions)


def _fetch_one(
    group: LastingGroup, partition: TopicPartition, require_stable: bool
) -> FetchedOffset:
    if require_stable and group.offsets.is_pending(partition):
        return FetchedOffset(partition, error_code=UnstableOffsetCommit.code)
    stored = group.offsets.committed.get(partition)
    if stored is None:
        return FetchedOffset(partition)
    record = stored.record
    return FetchedOffset(partition, record.offset, record.leader_epoch, record.metadata)

"""One transactional producer: begin, write prepared batches and offsets, commit or abort.

The law: after `MustAbort` only `abort` may follow, after `MustStop` nothing, and after
`OutcomeUnknown` only a new session, whose `initialise` ends what this one left open.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeVar

from semel.client.cluster import Cluster, CoordinatorOf
from semel.client.connection import IMPLICIT_PARTITIONS, Messages
from semel.client.identity import newest_identity, renewed_identity
from semel.client.outcome import OutcomeUnknown, judging_coordinator, judging_writes
from semel.client.producer import Delivery
from semel.client.refusal import raise_for
from semel.client.writer import BatchWriter, Identity
from semel.errors import InvalidTransactionState, OperationNotAttempted, RequestError
from semel.types import NO_PRODUCER_ID, Buffer, TopicPartition
from semel.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    txn_offset_commit,
)

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")
_Result = TypeVar("_Result")


class GroupOffset(NamedTuple):
    """Where a group is to go on reading, and a note that comes with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMember(NamedTuple):
    """On whose behalf offsets are written; the default is nobody's, so that nothing is fenced."""

    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None


class TransactionalSession:
    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = 60_000,
        identity: Identity | None = None,
    ) -> None:
        """`identity` is that of an earlier session: the next epoch, or fenced if that was."""
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._timeout_ms = transaction_timeout_ms
        self._identity = identity
        self._writer: BatchWriter | None = None
        self._needs_new_epoch = identity is not None
        self._is_open = False
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._has_written = False

    @property
    def identity(self) -> Identity:
        """Under which the open or the next transaction writes."""
        assert self._identity is not None, "the session is not initialised"
        return self._identity

    async def initialise(self) -> Identity:
        """Take the transactional id over: fence all others, roll back what they left open."""
        with judging_coordinator(self.transactional_id):
            self._adopt(
                await newest_identity(self._cluster, self.transactional_id, self._timeout_ms)
            )
        return self.identity

    async def begin(self) -> Identity:
        """Ready for writes; they are under the identity returned."""
        assert not self._is_open, "a transaction is open"
        if self._identity is None:
            await self.initialise()
        elif self._needs_new_epoch:
            with judging_coordinator(self.transactional_id):
                self._adopt(
                    await renewed_identity(
                        self._cluster, self.transactional_id, self._timeout_ms, self._identity
                    )
                )
        if self._writer is None:
            self._writer = BatchWriter(self._cluster, self.identity, self.transactional_id)
        self._is_open = True
        self._has_written = False
        self._partitions.clear()
        self._groups.clear()
        return self.identity

    def join(self, identity: Identity) -> None:
        """Write as part of a transaction that another process has opened, and will end.

        Each partition may have one writer: sequences begin with the first write of a session.
        """
        assert not self._is_open, "a transaction is open"
        self._identity = identity
        self._writer = BatchWriter(self._cluster, identity, self.transactional_id)
        self._is_open = True

    async def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Make these part of the transaction, where the cluster has to be told."""
        new = set(partitions) - self._partitions
        self._has_written = True
        if not new or await self._has_epoch_per_transaction():
            return
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in sorted(new):
            topics[topic].append(partition)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            self.transactional_id,
            *self.identity,
            [
                add_partitions_to_txn.AddPartitionsToTxnTopic(name, numbers)
                for name, numbers in topics.items()
            ],
        )
        await self._ask_coordinator(add_partitions_to_txn, request, _check_added)
        self._partitions |= new

    async def write(self, batches: Iterable[tuple[TopicPartition, Buffer]]) -> list[Delivery]:
        """Store these encoded batches as part of the transaction, in order."""
        assert self._is_open, "no transaction is open"
        assert self._writer is not None
        prepared = list(batches)
        await self.add_partitions({place for place, _ in prepared})
        with judging_writes(self.transactional_id):
            return await self._writer.write(prepared)

    async def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        member: GroupMember | None = None,
    ) -> None:
        """Set these offsets of the group if, and only if, the transaction commits."""
        assert self._is_open, "no transaction is open"
        self._has_written = True
        if group_id not in self._groups and not await self._has_epoch_per_transaction():
            await self._ask_coordinator(
                add_offsets_to_txn,
                add_offsets_to_txn.AddOffsetsToTxnRequest(
                    self.transactional_id, *self.identity, group_id
                ),
                lambda reply: raise_for(reply.error_code, f"group {group_id}"),
            )
            self._groups.add(group_id)
        request = self._offsets_request(group_id, offsets, member or GroupMember())

        async def attempt() -> None:
            reply = await self._cluster.call_coordinator(group_id, txn_offset_commit, request)
            for topic in reply.topics:
                for partition in topic.partitions:
                    place = TopicPartition(topic.name, partition.partition_index)
                    raise_for(partition.error_code, f"offset of group {group_id} in {place}")

        with judging_coordinator(self.transactional_id):
            await self._cluster.retry(attempt)

    def _offsets_request(
        self, group_id: str, offsets: Mapping[TopicPartition, GroupOffset], member: GroupMember
    ) -> txn_offset_commit.TxnOffsetCommitRequest:
        topics: dict[str, list[txn_offset_commit.TxnOffsetCommitRequestPartition]]
        topics = defaultdict(list)
        for (topic, partition), at in offsets.items():
            topics[topic].append(
                txn_offset_commit.TxnOffsetCommitRequestPartition(
                    partition, at.offset, at.leader_epoch, at.metadata
                )
            )
        return txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=[
                txn_offset_commit.TxnOffsetCommitRequestTopic(name, partitions)
                for name, partitions in topics.items()
            ],
        )

    async def commit(self) -> None:
        """Return once everything is committed; a lost answer is asked for again."""
        assert self._is_open, "no transaction is open"
        # A cluster refuses to end what has not begun.
        if self._has_written:
            await self._end(is_commit=True)
        self._is_open = False

    async def abort(self) -> None:
        """Undo everything; the next transaction writes under a new epoch."""
        assert self._is_open, "no transaction is open"
        # Where the answer brings no new epoch, the next transaction asks for one: what was refused
        # in this one would be refused again.
        self._needs_new_epoch = True
        self._writer = None
        if self._has_written:
            await self._end(is_commit=False)
        self._is_open = False

    async def _end(self, *, is_commit: bool) -> None:
        request = end_txn.EndTxnRequest(self.transactional_id, *self.identity, is_commit)
        subject = f"{'commit' if is_commit else 'abort'} of {self.transactional_id}"

        def check(reply: end_txn.EndTxnResponse) -> Identity:
            # There is nothing to abort if nothing of it has reached the coordinator.
            if is_commit or reply.error_code != InvalidTransactionState.code:
                raise_for(reply.error_code, subject)
            return Identity(reply.producer_id, reply.producer_epoch)

        following = await self._ask_coordinator(end_txn, request, check, is_end=True)
        if following.producer_id != NO_PRODUCER_ID:
            self._adopt(following)

    async def _ask_coordinator(
        self,
        messages: Messages[_Request, _Reply],
        request: _Request,
        check: Callable[[_Reply], _Result],
        *,
        is_end: bool = False,
    ) -> _Result:
        async def attempt() -> _Result:
            return check(
                await self._cluster.call_coordinator(
                    self.transactional_id, messages, request, CoordinatorOf.TRANSACTION
                )
            )

        with judging_coordinator(self.transactional_id):
            try:
                return await self._cluster.retry(attempt)
            except RequestError as error:
                if not (is_end and error.retriable):
                    raise
                raise OutcomeUnknown(f"{self.transactional_id}: {error}") from error

    async def _has_epoch_per_transaction(self) -> bool:
        return await self._cluster.transaction_version() >= IMPLICIT_PARTITIONS

    def _adopt(self, identity: Identity) -> None:
        """Sequences begin again with each epoch."""
        self._identity = identity
        self._writer = None
        self._needs_new_epoch = False


def _check_added(reply: add_partitions_to_txn.AddPartitionsToTxnResponse) -> None:
    """The first real reason: the others were not attempted because of it."""
    for topic in reply.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            if result.partition_error_code != OperationNotAttempted.code:
                place = TopicPartition(topic.name, result.partition_index)
                raise_for(result.partition_error_code, f"{place}")

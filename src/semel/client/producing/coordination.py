"""What a transactional producer asks of its coordinator, and of that of a group."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster, CoordinatorOf
from semel.client.cluster.metadata import TopicGone
from semel.client.connecting.connection import IMPLICIT_PARTITIONS, Messages
from semel.errors import OperationNotAttempted, UnknownTopicOrPartition
from semel.types import NO_PRODUCER, NO_PRODUCER_ID, ProducerIdAndEpoch, TopicPartition
from semel.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")
_Result = TypeVar("_Result")

_RENEWING_VERSION_MIN = 3  # From here on InitProducerId takes the producer id and epoch (KIP-360).
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class GroupMetadata(NamedTuple):
    """Which member of a consumer group read what a transaction was made of (KIP-447).

    By default it is nobody, so that nothing is fenced.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class GroupOffset(NamedTuple):
    """Where a group is to go on reading, and a note that comes with it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class CoordinatorFeatures(NamedTuple):
    is_implicit: bool
    can_renew_epoch: bool


async def new_producer_id(cluster: Cluster) -> ProducerIdAndEpoch:
    """For writing outside of transactions; any broker gives one."""
    request = init_producer_id.InitProducerIdRequest(None, _NO_TRANSACTION_TIMEOUT_MS)
    return _producer_of(await cluster.call_any(init_producer_id, request), "producer id")


class TransactionCoordination:
    """Each call is asked again for as long as its refusals are passing ones."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        transaction_timeout_ms: int,
        timeout_ms: int | None = None,
    ) -> None:
        """`timeout_ms` is how long passing refusals are retried; by default as the cluster does."""
        self._cluster = cluster
        self._id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._timeout_ms = timeout_ms

    async def features(self) -> CoordinatorFeatures:
        async def attempt() -> CoordinatorFeatures:
            node_id = await self._cluster.coordinator_of(self._id, CoordinatorOf.TRANSACTION)
            version = await self._cluster.version_of(node_id, init_producer_id)
            agreed = await self._cluster.transaction_version()
            return CoordinatorFeatures(
                agreed >= IMPLICIT_PARTITIONS, version >= _RENEWING_VERSION_MIN
            )

        return await self._cluster.retry(attempt, self._timeout_ms)

    async def initialise(self, producer: ProducerIdAndEpoch = NO_PRODUCER) -> ProducerIdAndEpoch:
        """A new epoch. Whoever had this id before is shut out, and what it left open is ended.

        With one it is this producer that goes on, unless it has been shut out itself.
        """
        return await self._ask(
            init_producer_id,
            init_producer_id.InitProducerIdRequest(
                self._id, self._transaction_timeout_ms, *producer
            ),
            lambda reply: _producer_of(reply, f"transactional id {self._id}"),
        )

    async def add_partitions(
        self, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> None:
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, number in partitions:
            topics[topic].append(number)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            self._id,
            *producer,
            [
                add_partitions_to_txn.AddPartitionsToTxnTopic(name, numbers)
                for name, numbers in topics.items()
            ],
        )
        await self._ask(add_partitions_to_txn, request, _check_added)

    async def add_group(self, producer: ProducerIdAndEpoch, group_id: str) -> None:
        await self._ask(
            add_offsets_to_txn,
            add_offsets_to_txn.AddOffsetsToTxnRequest(self._id, *producer, group_id),
            lambda reply: raise_for(reply.error_code, f"group {group_id}"),
        )

    async def commit_offsets(
        self,
        producer: ProducerIdAndEpoch,
        offsets: Mapping[TopicPartition, GroupOffset],
        group: GroupMetadata,
    ) -> None:
        topics: dict[str, list[txn_offset_commit.TxnOffsetCommitRequestPartition]]
        topics = defaultdict(list)
        for (topic, number), at in offsets.items():
            topics[topic].append(
                txn_offset_commit.TxnOffsetCommitRequestPartition(
                    number, at.offset, at.leader_epoch, at.metadata
                )
            )
        request = txn_offset_commit.TxnOffsetCommitRequest(
            self._id,
            group.group_id,
            *producer,
            group.generation_id,
            group.member_id,
            group.group_instance_id,
            [
                txn_offset_commit.TxnOffsetCommitRequestTopic(name, partitions)
                for name, partitions in topics.items()
            ],
        )

        async def attempt() -> None:
            node_id = await self._cluster.coordinator_of(group.group_id)
            pending = await self._cluster.ask(node_id, txn_offset_commit, request)
            # An abort may follow, to another broker, and must not be overtaken.
            reply = await pending.settled_reply(self._cluster.timeout_ms)
            for topic in reply.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    subject = f"offset of group {group.group_id} in {partition}"
                    if each.error_code == UnknownTopicOrPartition.code:
                        raise TopicGone(f"{subject}: the topic does not exist")
                    raise_for(each.error_code, subject)

        await self._cluster.retry(attempt, self._timeout_ms)

    async def end(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> ProducerIdAndEpoch:
        """The producer of the next transaction: another one where each has an epoch of its own."""
        subject = f"{'commit' if is_commit else 'abort'} of {self._id}"

        def following(reply: end_txn.EndTxnResponse) -> ProducerIdAndEpoch:
            raise_for(reply.error_code, subject)
            if reply.producer_id == NO_PRODUCER_ID:
                return producer
            return ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)

        request = end_txn.EndTxnRequest(self._id, *producer, is_commit)
        return await self._ask(end_txn, request, following)

    async def _ask(
        self,
        messages: Messages[_Request, _Reply],
        request: _Request,
        read: Callable[[_Reply], _Result],
    ) -> _Result:
        async def attempt() -> _Result:
            return read(
                await self._cluster.call_coordinator(
                    self._id, messages, request, CoordinatorOf.TRANSACTION
                )
            )

        return await self._cluster.retry(attempt, self._timeout_ms)


def _producer_of(
    reply: init_producer_id.InitProducerIdResponse, subject: str
) -> ProducerIdAndEpoch:
    raise_for(reply.error_code, subject)
    return ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)


def _check_added(reply: add_partitions_to_txn.AddPartitionsToTxnResponse) -> None:
    codes = {
        TopicPartition(topic.name, each.partition_index): each.partition_error_code
        for topic in reply.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }
    # All are refused if one is, and only that one tells the reason.
    for partition in sorted(
        codes, key=lambda partition: codes[partition] == OperationNotAttempted.code
    ):
        raise_for(codes[partition], f"{partition}")

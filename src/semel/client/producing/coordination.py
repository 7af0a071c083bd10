"""What a transactional producer asks of its coordinator, and of that of a group."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from semel.client.cluster import Cluster, CoordinatorOf
from semel.client.connection import IMPLICIT_PARTITIONS
from semel.client.producing.batch import NOBODY, Identity
from semel.client.refusal import raise_for, refusal
from semel.errors import NONE, OperationNotAttempted
from semel.types import NO_PRODUCER_ID, TopicPartition
from semel.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)

_RENEWING_VERSION_MIN = 3  # From here on InitProducerId takes the producer id and epoch (KIP-360).
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class GroupMetadata(NamedTuple):
    """Which member of a consumer group read what a transaction was made of (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Dialect(NamedTuple):
    is_implicit: bool
    can_renew_epoch: bool


async def new_producer_id(cluster: Cluster) -> Identity:
    """The identity of a producer without transactions; any broker gives one."""
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS
    )
    reply = await cluster.call_any(init_producer_id, request)
    raise_for(reply.error_code, "producer id")
    return Identity(reply.producer_id, reply.producer_epoch)


class Coordination:
    """Each call is asked again for as long as its refusals are passing ones."""

    def __init__(
        self, cluster: Cluster, transactional_id: str, transaction_timeout_ms: int, timeout_ms: int
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._transaction_timeout_ms = transaction_timeout_ms
        self._timeout_ms = timeout_ms
        self._subject = f"transactional id {transactional_id}"

    async def dialect(self) -> Dialect:
        async def attempt() -> Dialect:
            node_id = await self._cluster.coordinator_of(self._id, CoordinatorOf.TRANSACTION)
            version = await self._cluster.version_of(node_id, init_producer_id)
            agreed = await self._cluster.transaction_version()
            return Dialect(agreed >= IMPLICIT_PARTITIONS, version >= _RENEWING_VERSION_MIN)

        return await self._cluster.retry(attempt, self._timeout_ms)

    async def initialise(self, identity: Identity = NOBODY) -> Identity:
        """A new epoch. Whoever had this id before is shut out, and what it left open is ended.

        With an identity it is this producer that goes on, unless it has been shut out itself.
        """
        request = init_producer_id.InitProducerIdRequest(
            self._id, self._transaction_timeout_ms, identity.producer_id, identity.producer_epoch
        )

        async def attempt() -> Identity:
            reply = await self._cluster.call_coordinator(
                self._id, init_producer_id, request, CoordinatorOf.TRANSACTION
            )
            raise_for(reply.error_code, self._subject)
            return Identity(reply.producer_id, reply.producer_epoch)

        return await self._cluster.retry(attempt, self._timeout_ms)

    async def add_partitions(self, identity: Identity, places: Iterable[TopicPartition]) -> None:
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in places:
            topics[topic].append(partition)
        request = add_partitions_to_txn.AddPartitionsToTxnRequest(
            self._id,
            *identity,
            [
                add_partitions_to_txn.AddPartitionsToTxnTopic(name, partitions)
                for name, partitions in topics.items()
            ],
        )

        async def attempt() -> None:
            reply = await self._cluster.call_coordinator(
                self._id, add_partitions_to_txn, request, CoordinatorOf.TRANSACTION
            )
            refused = [
                (each.partition_error_code, f"{topic.name}-{each.partition_index}")
                for topic in reply.results_by_topic_v3_and_below
                for each in topic.results_by_partition
                if each.partition_error_code != NONE
            ]
            # All are refused if one is, and only that one tells the reason.
            refused.sort(key=lambda each: each[0] == OperationNotAttempted.code)
            for code, place in refused:
                raise refusal(code, place)

        await self._cluster.retry(attempt, self._timeout_ms)

    async def add_group(self, identity: Identity, group_id: str) -> None:
        request = add_offsets_to_txn.AddOffsetsToTxnRequest(self._id, *identity, group_id)

        async def attempt() -> None:
            reply = await self._cluster.call_coordinator(
                self._id, add_offsets_to_txn, request, CoordinatorOf.TRANSACTION
            )
            raise_for(reply.error_code, self._subject)

        await self._cluster.retry(attempt, self._timeout_ms)

    async def commit_offsets(
        self, identity: Identity, offsets: Mapping[TopicPartition, int], group: GroupMetadata
    ) -> None:
        topics: dict[str, list[txn_offset_commit.TxnOffsetCommitRequestPartition]]
        topics = defaultdict(list)
        for place, offset in offsets.items():
            topics[place.topic].append(
                txn_offset_commit.TxnOffsetCommitRequestPartition(place.partition, offset)
            )
        request = txn_offset_commit.TxnOffsetCommitRequest(
            self._id,
            group.group_id,
            *identity,
            group.generation_id,
            group.member_id,
            group.group_instance_id,
            [
                txn_offset_commit.TxnOffsetCommitRequestTopic(name, partitions)
                for name, partitions in topics.items()
            ],
        )

        async def attempt() -> None:
            reply = await self._cluster.call_coordinator(group.group_id, txn_offset_commit, request)
            for topic in reply.topics:
                for each in topic.partitions:
                    place = TopicPartition(topic.name, each.partition_index)
                    raise_for(each.error_code, f"offset of {place} for group {group.group_id}")

        await self._cluster.retry(attempt, self._timeout_ms)

    async def end(self, identity: Identity, *, is_commit: bool) -> Identity:
        """The identity of the next transaction: another one where each has an epoch of its own."""
        request = end_txn.EndTxnRequest(self._id, *identity, is_commit)

        async def attempt() -> Identity:
            reply = await self._cluster.call_coordinator(
                self._id, end_txn, request, CoordinatorOf.TRANSACTION
            )
            raise_for(reply.error_code, self._subject)
            if reply.producer_id == NO_PRODUCER_ID:
                return identity
            return Identity(reply.producer_id, reply.producer_epoch)

        return await self._cluster.retry(attempt, self._timeout_ms)

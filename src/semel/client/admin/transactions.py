"""Transactions seen from outside: who has one open, where, since when, and ending it for them."""

import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from semel.client.cluster.calls import raise_for, together
from semel.client.cluster.cluster import Cluster, CoordinatorOf
from semel.errors import InvalidTransactionState, RequestError, TransactionalIdNotFound
from semel.transactions.transaction import OPEN, Status
from semel.types import TopicPartition
from semel.wire.messages import (
    describe_producers,
    describe_transactions,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)

OPEN_STATES = frozenset(status.label for status in OPEN)
"""As the cluster names them: something is open, so that readers of committed records wait."""

_IDS_PER_REQUEST = 1000
_NO_OFFSET = -1
_NO_TIME = -1


class TransactionListing(NamedTuple):
    transactional_id: str
    state: str
    producer_id: int
    coordinator_id: int

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class TransactionDescription(NamedTuple):
    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_at_ms: int | None
    partitions: frozenset[TopicPartition]
    coordinator_id: int

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class ActiveProducer(NamedTuple):
    """What a partition remembers of one producer."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int
    active_at_ms: int
    coordinator_epoch: int
    first_offset: int | None
    """Where its open transaction began in this partition, if it has one."""


async def list_all(
    cluster: Cluster, *, states: Collection[str] = (), producer_ids: Collection[int] = ()
) -> list[TransactionListing]:
    """The transactional ids of every broker, since each knows only those it coordinates."""
    request = list_transactions.ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids)
    )

    async def attempt() -> list[TransactionListing]:
        found: dict[str, TransactionListing] = {}
        for broker_id in (await cluster.describe(())).brokers:
            reply = await cluster.call(broker_id, list_transactions, request)
            raise_for(reply.error_code, f"transactions of broker {broker_id}")
            for each in reply.transaction_states:
                found[each.transactional_id] = TransactionListing(
                    each.transactional_id, each.transaction_state, each.producer_id, broker_id
                )
        return sorted(found.values())

    return await cluster.retry(attempt)


async def describe(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """This transactional id as its coordinator knows it; refused if there is none of this name."""

    async def attempt() -> TransactionDescription:
        coordinator_id = await cluster.coordinator_of(transactional_id, CoordinatorOf.TRANSACTION)
        found = await _described_by(cluster, coordinator_id, [transactional_id])
        if transactional_id not in found:
            raise TransactionalIdNotFound(f"transactional id {transactional_id} is not known")
        return found[transactional_id]

    return await cluster.retry(attempt)


async def describe_listed(
    cluster: Cluster, listed: Iterable[TransactionListing]
) -> dict[str, TransactionDescription]:
    """These transactional ids; those that have expired since they were listed are left out."""
    by_coordinator: dict[int, list[str]] = defaultdict(list)
    for each in listed:
        by_coordinator[each.coordinator_id].append(each.transactional_id)
    found: dict[str, TransactionDescription] = {}
    for coordinator_id, ids in by_coordinator.items():
        for start in range(0, len(ids), _IDS_PER_REQUEST):
            some = ids[start : start + _IDS_PER_REQUEST]
            try:
                found |= await _described_by(cluster, coordinator_id, some)
            except RequestError as error:
                if not error.retriable:
                    raise
                found |= await _described_singly(cluster, some)
    return found


async def _described_singly(
    cluster: Cluster, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription]:
    """For when a coordinator has moved: those of one broker may now have several."""
    found = {}
    for transactional_id in transactional_ids:
        with contextlib.suppress(TransactionalIdNotFound):
            found[transactional_id] = await describe(cluster, transactional_id)
    return found


async def _described_by(
    cluster: Cluster, coordinator_id: int, transactional_ids: list[str]
) -> dict[str, TransactionDescription]:
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids)
    reply = await cluster.call(coordinator_id, describe_transactions, request)
    found = {}
    for each in reply.transaction_states:
        if each.error_code == TransactionalIdNotFound.code:
            continue
        raise_for(each.error_code, f"transactional id {each.transactional_id}")
        started_at_ms = each.transaction_start_time_ms
        found[each.transactional_id] = TransactionDescription(
            each.transactional_id,
            each.transaction_state,
            each.producer_id,
            each.producer_epoch,
            each.transaction_timeout_ms,
            None if started_at_ms == _NO_TIME else started_at_ms,
            frozenset(
                TopicPartition(topic.topic, index)
                for topic in each.topics
                for index in topic.partitions
            ),
            coordinator_id,
        )
    return found


async def active_producers(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> list[ActiveProducer]:
    """The producers that the leaders of these partitions remember, in the order of partitions."""

    async def attempt() -> list[ActiveProducer]:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition, leader_id in (await cluster.leaders_of(partitions)).items():
            by_leader[leader_id].append(partition)
        answers = await together(
            _producers_at(cluster, leader_id, led) for leader_id, led in by_leader.items()
        )
        return sorted(producer for answer in answers for producer in answer)

    return await cluster.retry(attempt) if partitions else []


async def _producers_at(
    cluster: Cluster, leader_id: int, partitions: Iterable[TopicPartition]
) -> list[ActiveProducer]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        topics[topic].append(index)
    request = describe_producers.DescribeProducersRequest(
        [describe_producers.TopicRequest(topic, indexes) for topic, indexes in topics.items()]
    )
    reply = await cluster.call(leader_id, describe_producers, request)
    producers = []
    for topic_answer in reply.topics:
        for answer in topic_answer.partitions:
            partition = TopicPartition(topic_answer.name, answer.partition_index)
            raise_for(answer.error_code, f"producers of {partition}", answer.error_message)
            producers += [_active(partition, state) for state in answer.active_producers]
    return producers


def _active(partition: TopicPartition, state: describe_producers.ProducerState) -> ActiveProducer:
    first_offset = state.current_txn_start_offset
    return ActiveProducer(
        partition,
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        None if first_offset == _NO_OFFSET else first_offset,
    )


async def abort(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """Abort the transaction that this id has open, and shut its producer out; what it was."""
    before = await describe(cluster, transactional_id)
    if before.state != Status.ONGOING.label:
        raise InvalidTransactionState(_nothing_to_abort(before))
    await fence(cluster, transactional_id, before.timeout_ms)
    return before


def _nothing_to_abort(description: TransactionDescription) -> str:
    subject = f"{description.transactional_id} is {description.state}"
    if description.is_open:
        return f"{subject}: that is decided, and its coordinator completes it"
    return f"{subject}: it has no transaction open"


async def fence(cluster: Cluster, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """Abort whatever this id has open, and shut its producer out; its new producer id and epoch.

    This is what a new incarnation of the producer does first, so that the coordinator itself
    aborts: in every partition, and never one that is decided. `timeout_ms` is what the id has.
    """
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )

    async def attempt() -> tuple[int, int]:
        reply = await cluster.call_coordinator(
            transactional_id, init_producer_id, request, CoordinatorOf.TRANSACTION
        )
        raise_for(reply.error_code, f"transactional id {transactional_id}")
        return reply.producer_id, reply.producer_epoch

    return await cluster.retry(attempt)


async def abort_in_partition(cluster: Cluster, producer: ActiveProducer) -> None:
    """Write an abort marker for what this producer has open in its partition, and there alone.

    Only for a transaction that no coordinator knows: any other would be torn by it.
    """
    partition = producer.partition
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[write_txn_markers.WritableTxnMarkerTopic(partition.topic, [partition.partition])],
        # None has ever ended a transaction of this producer here, so that any may.
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )

    async def attempt() -> None:
        leader_id = (await cluster.leaders_of([partition]))[partition]
        reply = await cluster.call(
            leader_id, write_txn_markers, write_txn_markers.WriteTxnMarkersRequest([marker])
        )
        for result in reply.markers:
            for topic in result.topics:
                for answer in topic.partitions:
                    raise_for(answer.error_code, f"abort in {partition}")

    await cluster.retry(attempt)

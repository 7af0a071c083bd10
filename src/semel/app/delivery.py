"""How the work of a cycle reaches the cluster: in a transaction, or records first and offsets then.

Work that could not be delivered is `NotDelivered`, which says what that means for its records.

Every transactional id is used by one producer and never again. No two processes have to agree on
ids then, and whether a member may still commit is told by its group's generation (KIP-447). A
transaction whose process died in it is ended by the coordinator, after the transaction's timeout.
"""

import enum
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from semel.app.outbox import Outgoing
from semel.client.cluster.metadata import TopicGone, TopicRemade
from semel.client.consuming.refusals import CommitFailed
from semel.client.outcome import MustAbort, MustStop, OutcomeUnknown, TransactionFailed
from semel.client.producing.asynchronous import AsyncProducer, AsyncSent
from semel.client.producing.coordination import GroupMetadata
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
from semel.types import TopicPartition

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

Offsets = Mapping[TopicPartition, int]


class Meaning(enum.Enum):
    AGAIN = "the cluster or the group is in motion: the records are worked on again"
    RECORDS = "the cluster refuses what was sent: a record of the cycle is at fault"
    FINAL = "it will be refused for ever"


class NotDelivered(SemelError):
    """Nothing of the cycle has happened, unless it is found committed; `__cause__` says why."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.__cause__ = reason
        self.meaning = meaning_of(reason)
        refusal = _refusal(reason)
        self.is_of_group = isinstance(refusal, _OF_GROUP)
        """Whether the group has given the partitions to someone else."""
        self.is_of_gone_input = isinstance(refusal, TopicGone)
        """Whether a topic that was read does not exist."""
        self.remade = refusal.name if isinstance(refusal, TopicRemade) else None
        """The topic that is another one by now."""


def meaning_of(reason: Exception) -> Meaning:
    refusal = _refusal(reason)
    if isinstance(refusal, TopicGone | TopicRemade):
        # No record is at fault: one that was read is waited for, and of one that was written to
        # the next transaction takes what it is by now.
        return Meaning.AGAIN
    if isinstance(refusal, _FAULTS_OF_RECORDS):
        return Meaning.RECORDS
    if isinstance(refusal, RequestError):
        is_passing = refusal.retriable or isinstance(refusal, _PASSING)
        return Meaning.AGAIN if is_passing else Meaning.FINAL
    return Meaning.FINAL if isinstance(reason, MustStop) else Meaning.AGAIN


def _refusal(reason: Exception) -> BaseException | None:
    return reason.__cause__ if isinstance(reason, TransactionFailed) else reason


class Carrier(Protocol):
    is_transactional: bool

    async def deliver(
        self, records: Sequence[Outgoing], offsets: Offsets, membership: GroupMetadata
    ) -> None:
        """Raises NotDelivered."""

    async def close(self) -> None: ...


class InTransactions:
    """Records and offsets together; for a producer that is lost, another one is made."""

    is_transactional = True

    def __init__(self, make_producer: Callable[[], AsyncProducer]) -> None:
        self._make_producer = make_producer
        self._producer: AsyncProducer | None = None

    async def deliver(
        self, records: Sequence[Outgoing], offsets: Offsets, membership: GroupMetadata
    ) -> None:
        assert membership.generation_id >= 0, "offsets of nobody's are fenced by nothing"
        producer = await self._begun({record.topic for record in records})
        try:
            for record in records:
                await _send(producer, record)
            await producer.send_offsets_to_transaction(offsets, membership)
            await _commit(producer)
        except (MustStop, OutcomeUnknown) as failure:
            await self.close()
            raise NotDelivered(failure) from failure
        except (MustAbort, RequestError) as failure:
            await self._abort(producer)
            raise NotDelivered(failure) from failure

    async def _begun(self, topics: Collection[str]) -> AsyncProducer:
        if self._producer is None:
            self._producer = self._make_producer()
            await self._producer.start()
        producer = self._producer
        try:
            # A missing one is waited for, and in a transaction others would wait with it.
            await producer.learn_topics(topics)
        except RequestError as failure:
            raise NotDelivered(failure) from failure
        try:
            await producer.begin_transaction()
        except (TransactionFailed, RequestError) as failure:
            await self.close()
            raise NotDelivered(failure) from failure
        return producer

    async def _abort(self, producer: AsyncProducer) -> None:
        try:
            await producer.abort_transaction()
        except TransactionFailed:
            # It cannot be ended by this producer any more, and is by its timeout.
            await self.close()

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(TransactionFailed, RequestError):
                await producer.close()


class AtLeastOnce:
    """Records first; their offsets are committed when they are stored."""

    is_transactional = False

    def __init__(
        self,
        make_producer: Callable[[], AsyncProducer],
        commit: Callable[[Offsets, GroupMetadata], Awaitable[object]],
    ) -> None:
        self._make_producer = make_producer
        self._commit = commit
        self._producer: AsyncProducer | None = None

    async def deliver(
        self, records: Sequence[Outgoing], offsets: Offsets, membership: GroupMetadata
    ) -> None:
        try:
            if records:
                await self._store(records)
        except RequestError as failure:
            await self.close()
            raise NotDelivered(failure) from failure
        try:
            await self._commit(offsets, membership)
        except (CommitFailed, RequestError) as failure:
            raise NotDelivered(failure) from failure

    async def _store(self, records: Sequence[Outgoing]) -> None:
        if self._producer is None:
            self._producer = self._make_producer()
            await self._producer.start()
        for record in records:
            await _send(self._producer, record)
        # Raises what became of one that was not stored.
        await self._producer.flush()

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            # Offsets are committed behind records that are stored, and behind no others.
            with suppress(RequestError):
                await producer.close()


async def _send(producer: AsyncProducer, record: Outgoing) -> AsyncSent:
    return await producer.send(
        record.topic,
        record.value,
        record.key,
        headers=record.headers,
        timestamp_ms=record.timestamp_ms,
        partition=record.partition,
    )


async def _commit(producer: AsyncProducer) -> None:
    try:
        await producer.commit_transaction()
    except OutcomeUnknown:
        # Nobody answered for a long time. Only asking again can tell, or the committed offsets.
        await producer.commit_transaction()

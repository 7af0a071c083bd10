"""The transactions of one producer: begun, filled with offsets, and ended one after the other."""

import asyncio
from collections.abc import Mapping

from semel.client import outcome
from semel.client.cluster.offsets import as_committable
from semel.client.outcome import ErrorKind, MustAbort, MustStop, OutcomeUnknown, TransactionFailed
from semel.client.producing.coordination import GroupMetadata, GroupOffset, TransactionCoordination
from semel.client.producing.engine import ProducerEngine
from semel.client.producing.transaction_state import TransactionState, TransactionStatus
from semel.errors import InvalidTransactionState, RequestError, SemelError
from semel.types import ProducerIdAndEpoch, TopicPartition


class TransactionAborted(SemelError):
    """The record was dropped, because its transaction was aborted."""


class ProducerTransactions:
    def __init__(
        self,
        engine: ProducerEngine,
        transaction: TransactionState,
        coordination: TransactionCoordination,
    ) -> None:
        self._engine = engine
        self._core = engine.core
        self._transaction = transaction
        self._coordination = coordination
        # An abort takes both, so that it comes behind all that may begin the transaction.
        self._joining = asyncio.Lock()
        self._sending_offsets = asyncio.Lock()
        engine.attend_to_transaction = self._join_partitions

    @property
    def is_to_be_aborted(self) -> bool:
        return self._transaction.is_to_be_aborted

    async def initialise(self) -> None:
        """Shut out older producers of this transactional id, and end what they left open."""
        try:
            features = await self._coordination.features()
            producer = await self._coordination.initialise()
        except RequestError as error:
            if outcome.kind_from_coordinator(error) is ErrorKind.FATAL:
                raise self._judged(error) from error
            raise
        with self._engine.lock:
            self._transaction.initialised(
                is_implicit=features.is_implicit, can_renew_epoch=features.can_renew_epoch
            )
            self._core.restart(producer)

    async def begin(self) -> None:
        if self._transaction.status is TransactionStatus.UNINITIALISED:
            await self.initialise()
        with self._engine.lock:
            self._transaction.begin()

    async def _join_partitions(self) -> None:
        async with self._joining:
            partitions = self._transaction.joining
            if not partitions:
                return
            self._may_begin()
            try:
                await self._coordination.add_partitions(self._core.producer, partitions)
            except RequestError as error:
                self._judged(error)
            else:
                with self._engine.lock:
                    self._has_begun()
                    self._transaction.joined(partitions)

    def _may_begin(self) -> None:
        """To be noted before a call: that may have no answer, or be interrupted."""
        if not self._transaction.is_begun:
            self._transaction.is_begun = True
            self._transaction.is_begin_known = False

    def _has_begun(self) -> None:
        self._transaction.is_begun = True
        self._transaction.is_begin_known = True

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: GroupMetadata
    ) -> None:
        """Let these offsets of the group be committed with the transaction, or not at all."""
        transaction = self._transaction
        transaction.check_open()
        named = as_committable(offsets)
        if not named:
            return
        try:
            async with self._sending_offsets:
                transaction.check_open()
                await self._join_group(group.group_id)
                await self._coordination.commit_offsets(
                    self._core.producer,
                    {partition: GroupOffset(offset) for partition, offset in named.items()},
                    group,
                )
        except RequestError as error:
            raise self._judged(error) from error
        except asyncio.CancelledError:
            # They may be part of it or not, so that it cannot be committed.
            with self._engine.lock:
                self._core.doom(MustAbort(f"{self._subject}: sending offsets was interrupted"))
            raise

    async def _join_group(self, group_id: str) -> None:
        transaction = self._transaction
        if transaction.is_implicit:
            # It joins by what is sent next.
            transaction.is_begun = True
        elif group_id not in transaction.groups:
            self._may_begin()
            await self._coordination.add_group(self._core.producer, group_id)
            self._has_begun()
            transaction.groups.add(group_id)

    async def commit(self) -> None:
        with self._engine.lock:
            self._transaction.commit()
        try:
            await self._engine.flush()
        except asyncio.CancelledError:
            with self._engine.lock:
                self._core.doom(MustAbort(f"{self._subject}: the commit was interrupted"))
            raise
        self._check_committing()
        producer = self._core.producer
        if self._transaction.is_begun:
            producer = await self._committed(producer)
        self._ended(producer)

    async def _committed(self, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        try:
            return await self._coordination.end(producer, is_commit=True)
        except RequestError as error:
            if outcome.kind_from_coordinator(error) is not ErrorKind.RETRY:
                raise self._judged(error) from error
            self._transaction.in_doubt(error)
            raise OutcomeUnknown(f"{self._subject}: {error}") from error
        except asyncio.CancelledError:
            self._transaction.in_doubt(OutcomeUnknown(f"{self._subject}: interrupted"))
            raise

    def _check_committing(self) -> None:
        """Raise unless everything that belongs to the transaction is stored."""
        transaction = self._transaction
        if transaction.status is not TransactionStatus.COMMITTING:
            kind = MustStop if transaction.status is TransactionStatus.STOPPED else MustAbort
            raise kind(f"{self._subject}: {transaction.error}") from transaction.error

    async def abort(self) -> None:
        with self._engine.lock:
            self._transaction.abort()
            self._core.drop(TransactionAborted(f"{self._subject}: aborted"))
        self._engine.pump()
        await self._engine.answers()
        try:
            async with self._joining, self._sending_offsets:
                producer = await self._aborted(self._core.producer)
        except RequestError as error:
            if outcome.kind_from_coordinator(error) is ErrorKind.FATAL:
                raise self._judged(error) from error
            raise MustAbort(f"{self._subject}: not aborted yet: {error}") from error
        self._ended(producer)

    async def _aborted(self, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        transaction = self._transaction
        needs_epoch = transaction.is_epoch_spent or self._core.is_out_of_sequence()
        if transaction.is_begun:
            try:
                ended = await self._coordination.end(producer, is_commit=False)
            except InvalidTransactionState:
                # It never began, or has no way of being ended.
                if transaction.is_begin_known:
                    raise
            else:
                transaction.is_begun = False
                if ended != producer:
                    return ended
        if not needs_epoch:
            return producer
        if not transaction.can_renew_epoch:
            error = transaction.error or MustStop("sequences were lost")
            self._core.fail(error)
            raise MustStop(f"{self._subject}: {error}") from error
        return await self._coordination.initialise(producer)

    def _ended(self, producer: ProducerIdAndEpoch) -> None:
        with self._engine.lock:
            if producer != self._core.producer:
                self._core.restart(producer)
            self._transaction.ended()

    @property
    def _subject(self) -> str:
        return f"transactional id {self._transaction.transactional_id}"

    def _sentence(self, error: RequestError) -> str:
        """The coordinator is asked about the id, so that a refusal may name it."""
        said = str(error)
        return said if said.startswith(f"{self._subject}: ") else f"{self._subject}: {said}"

    def _judged(self, error: RequestError) -> TransactionFailed:
        """Note what a refusal of the coordinator means, and say which it was."""
        is_fatal = outcome.kind_from_coordinator(error) is ErrorKind.FATAL
        with self._engine.lock:
            if is_fatal:
                self._core.fail(error)
            else:
                self._core.doom(error)
        self._engine.pump()
        return (MustStop if is_fatal else MustAbort)(self._sentence(error))

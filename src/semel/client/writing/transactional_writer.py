"""One transactional producer: begin, write prepared batches and offsets, commit or abort.

The law: after `MustAbort` only `abort` or `renew` may follow, after `OutcomeUnknown` only `renew`,
which ends what was left open, and after `MustStop` nothing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from semel.client.cluster.cluster import Cluster
from semel.client.connecting.connection import IMPLICIT_PARTITIONS
from semel.client.outcome import OutcomeUnknown, judging_coordinator, judging_writes
from semel.client.producing.coordination import GroupMetadata, GroupOffset, TransactionCoordination
from semel.client.writing.batch_writer import Delivery, EncodedBatchWriter
from semel.errors import InvalidTransactionState, RequestError
from semel.types import NO_PRODUCER, Buffer, ProducerIdAndEpoch, TopicPartition


class TransactionalWriter:
    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        *,
        transaction_timeout_ms: int = 60_000,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """`producer` is that of an earlier writer: the next epoch, or fenced if that was."""
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._coordination = TransactionCoordination(
            cluster, transactional_id, transaction_timeout_ms
        )
        self._producer = producer
        self._writer: EncodedBatchWriter | None = None
        self._needs_new_epoch = producer is not None
        self._is_open = False
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._has_written = False

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """Under which the open or the next transaction writes."""
        assert self._producer is not None, "the writer is not initialised"
        return self._producer

    @property
    def is_initialised(self) -> bool:
        return self._producer is not None

    async def initialise(self) -> ProducerIdAndEpoch:
        """Take the transactional id over: fence all others, roll back what they left open."""
        with judging_coordinator(self.transactional_id):
            self._adopt(await self._coordination.initialise())
        return self.producer

    async def renew(self) -> ProducerIdAndEpoch:
        """The next epoch, unless somebody has taken the id over: then the request is refused.

        What is open is rolled back. Brokers before version 2.5 cannot tell: there it is as with
        `initialise`.
        """
        with judging_coordinator(self.transactional_id):
            can_tell = (await self._coordination.features()).can_renew_epoch
            known = self.producer if can_tell else NO_PRODUCER
            self._adopt(await self._coordination.initialise(known))
        return self.producer

    async def begin(self) -> ProducerIdAndEpoch:
        """Ready for writes; they are under the producer id and epoch returned."""
        assert not self._is_open, "a transaction is open"
        if self._producer is None:
            await self.initialise()
        elif self._needs_new_epoch:
            await self.renew()
        if self._writer is None:
            self._writer = EncodedBatchWriter(self._cluster, self.producer, self.transactional_id)
        self._is_open = True
        self._has_written = False
        self._partitions.clear()
        self._groups.clear()
        return self.producer

    async def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Make these part of the transaction, where the cluster has to be told."""
        new = set(partitions) - self._partitions
        self._has_written |= bool(partitions)
        if not new or await self._has_epoch_per_transaction():
            return
        with judging_coordinator(self.transactional_id):
            await self._coordination.add_partitions(self.producer, sorted(new))
        self._partitions |= new

    async def write(self, batches: Iterable[tuple[TopicPartition, Buffer]]) -> list[Delivery]:
        """Store these encoded batches as part of the transaction, in order."""
        assert self._is_open, "no transaction is open"
        assert self._writer is not None
        prepared = list(batches)
        await self.add_partitions({partition for partition, _ in prepared})
        with judging_writes(self.transactional_id):
            return await self._writer.write(prepared)

    async def send_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        """Set these offsets of the group if, and only if, the transaction commits."""
        assert self._is_open, "no transaction is open"
        self._has_written = True
        is_known = group.group_id in self._groups or await self._has_epoch_per_transaction()
        with judging_coordinator(self.transactional_id):
            if not is_known:
                await self._coordination.add_group(self.producer, group.group_id)
                self._groups.add(group.group_id)
            await self._coordination.commit_offsets(self.producer, offsets, group)

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
        with judging_coordinator(self.transactional_id):
            try:
                following = await self._coordination.end(self.producer, is_commit=is_commit)
            except InvalidTransactionState:
                # There is nothing to abort if nothing of it has reached the coordinator.
                if is_commit:
                    raise
                return
            except RequestError as error:
                if not error.retriable:
                    raise
                raise OutcomeUnknown(f"{self.transactional_id}: {error}") from error
        if following != self.producer:
            self._adopt(following)

    async def _has_epoch_per_transaction(self) -> bool:
        return await self._cluster.transaction_version() >= IMPLICIT_PARTITIONS

    def _adopt(self, producer: ProducerIdAndEpoch) -> None:
        """Sequences begin again with each epoch, under which nothing is open yet."""
        self._producer = producer
        self._is_open = False
        self._writer = None
        self._needs_new_epoch = False


class TransactionParticipant:
    """One of several processes that write within a transaction, which another begins and ends."""

    def __init__(
        self, cluster: Cluster, transactional_id: str, producer: ProducerIdAndEpoch
    ) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._producer = producer
        # How long the transaction may take has been said by whoever began it.
        self._coordination = TransactionCoordination(
            cluster, transactional_id, transaction_timeout_ms=0
        )
        self._partitions: set[TopicPartition] = set()

    async def write(
        self, partition: TopicPartition, batches: Sequence[Buffer], first_sequence: int
    ) -> None:
        """Store these encoded batches, in order, behind what anyone has stored there before.

        Nobody else may be writing to the partition, and `first_sequence` has to be the next.
        """
        await self._add(partition)
        writer = EncodedBatchWriter(self._cluster, self._producer, self._id)
        writer.begin_at(partition, first_sequence)
        with judging_writes(self._id):
            await writer.write((partition, batch) for batch in batches)

    async def _add(self, partition: TopicPartition) -> None:
        if partition in self._partitions:
            return
        if await self._cluster.transaction_version() < IMPLICIT_PARTITIONS:
            with judging_coordinator(self._id):
                await self._coordination.add_partitions(self._producer, [partition])
        self._partitions.add(partition)

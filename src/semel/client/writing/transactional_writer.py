"""One transactional producer: begin, write prepared batches and offsets, commit or abort.

The law: after `MustAbort` only `abort` or `renew` may follow, after `OutcomeUnknown` only `renew`,
which ends what was left open, and after `MustStop` nothing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from semel.client.cluster.cluster import Cluster
from semel.client.connecting.connection import IMPLICIT_PARTITIONS
from semel.client.identity import NOBODY, Identity
from semel.client.outcome import OutcomeUnknown, judging_coordinator, judging_writes
from semel.client.producing.coordination import Coordination, GroupMetadata, GroupOffset
from semel.client.writing.batch_writer import BatchWriter, Delivery
from semel.errors import InvalidTransactionState, RequestError
from semel.types import Buffer, TopicPartition


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
        self._coordination = Coordination(cluster, transactional_id, transaction_timeout_ms)
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

    @property
    def is_initialised(self) -> bool:
        return self._identity is not None

    async def initialise(self) -> Identity:
        """Take the transactional id over: fence all others, roll back what they left open."""
        with judging_coordinator(self.transactional_id):
            self._adopt(await self._coordination.initialise())
        return self.identity

    async def renew(self) -> Identity:
        """The next epoch, unless somebody has taken the id over: then the request is refused.

        What is open is rolled back. Brokers before version 2.5 cannot tell: there it is as with
        `initialise`.
        """
        with judging_coordinator(self.transactional_id):
            can_tell = (await self._coordination.dialect()).can_renew_epoch
            known = self.identity if can_tell else NOBODY
            self._adopt(await self._coordination.initialise(known))
        return self.identity

    async def begin(self) -> Identity:
        """Ready for writes; they are under the identity returned."""
        assert not self._is_open, "a transaction is open"
        if self._identity is None:
            await self.initialise()
        elif self._needs_new_epoch:
            await self.renew()
        if self._writer is None:
            self._writer = BatchWriter(self._cluster, self.identity, self.transactional_id)
        self._is_open = True
        self._has_written = False
        self._partitions.clear()
        self._groups.clear()
        return self.identity

    async def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Make these part of the transaction, where the cluster has to be told."""
        new = set(partitions) - self._partitions
        self._has_written |= bool(partitions)
        if not new or await self._has_epoch_per_transaction():
            return
        with judging_coordinator(self.transactional_id):
            await self._coordination.add_partitions(self.identity, sorted(new))
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
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        """Set these offsets of the group if, and only if, the transaction commits."""
        assert self._is_open, "no transaction is open"
        self._has_written = True
        is_known = group.group_id in self._groups or await self._has_epoch_per_transaction()
        with judging_coordinator(self.transactional_id):
            if not is_known:
                await self._coordination.add_group(self.identity, group.group_id)
                self._groups.add(group.group_id)
            await self._coordination.commit_offsets(self.identity, offsets, group)

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
                following = await self._coordination.end(self.identity, is_commit=is_commit)
            except InvalidTransactionState:
                # There is nothing to abort if nothing of it has reached the coordinator.
                if is_commit:
                    raise
                return
            except RequestError as error:
                if not error.retriable:
                    raise
                raise OutcomeUnknown(f"{self.transactional_id}: {error}") from error
        if following != self.identity:
            self._adopt(following)

    async def _has_epoch_per_transaction(self) -> bool:
        return await self._cluster.transaction_version() >= IMPLICIT_PARTITIONS

    def _adopt(self, identity: Identity) -> None:
        """Sequences begin again with each epoch, under which nothing is open yet."""
        self._identity = identity
        self._is_open = False
        self._writer = None
        self._needs_new_epoch = False


class Participant:
    """One of several processes that write within a transaction, which another begins and ends."""

    def __init__(self, cluster: Cluster, transactional_id: str, identity: Identity) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._identity = identity
        # How long the transaction may take has been said by whoever began it.
        self._coordination = Coordination(cluster, transactional_id, transaction_timeout_ms=0)
        self._partitions: set[TopicPartition] = set()

    async def write(
        self, place: TopicPartition, batches: Sequence[Buffer], first_sequence: int
    ) -> None:
        """Store these encoded batches, in order, behind what anyone has stored there before.

        Nobody else may be writing to the partition, and `first_sequence` has to be the next.
        """
        await self._add(place)
        writer = BatchWriter(self._cluster, self._identity, self._id)
        writer.begin_at(place, first_sequence)
        with judging_writes(self._id):
            await writer.write((place, batch) for batch in batches)

    async def _add(self, place: TopicPartition) -> None:
        if place in self._partitions:
            return
        if await self._cluster.transaction_version() < IMPLICIT_PARTITIONS:
            with judging_coordinator(self._id):
                await self._coordination.add_partitions(self._identity, [place])
        self._partitions.add(place)

"""Commands about records and producers: what a Produce request becomes.

Under TV2 a partition joins the transaction in the frame of its first batch. Under TV1 it must
have been added before.
"""

from typing import NamedTuple

from semel.errors import InvalidProducerIdMapping, InvalidTransactionState, RequestError
from semel.lane import facts
from semel.lane.commands import Claim, Decided, Environment
from semel.lane.frame import ENTRY_SIZE as ENTRY_SIZE
from semel.lane.frame import Frame
from semel.lane.state import LaneState
from semel.lane.transactions import add_transaction
from semel.lane.view import PartitionView
from semel.log.partition import Partition
from semel.log.producers import NotRemembered as NotRemembered
from semel.log.producers import SequenceReused
from semel.records import batch as record_batch
from semel.records.batch import TRANSACTIONAL, BatchHeader
from semel.transactions.commands import Doom, WriteRecords
from semel.transactions.dialect import Dialect
from semel.transactions.joining import check_plain
from semel.types import Offset, ProducerId, Term, TransactionalId
from semel.world import Moment


class Incoming:
    """A batch as it comes in: looked at, not yet decided."""

    __slots__ = ("batch", "fingerprint", "header", "partition")
    is_stamped = False

    def __init__(
        self, partition: PartitionView, header: BatchHeader, fingerprint: int, batch: memoryview
    ) -> None:
        self.partition = partition
        self.header = header
        self.fingerprint = fingerprint
        self.batch = batch

    def add_to(self, frame: Frame, partition: Partition, term: Term) -> None:
        """As the partition's next, and its only one in this frame."""
        frame.add_batch(
            partition.number,
            partition.log_end_offset,
            term,
            self.header,
            self.fingerprint,
            self.batch,
        )


class StampedIncoming(Incoming):
    """For a topic that gives its records the time at which they were appended."""

    __slots__ = ()
    is_stamped = True

    def __init__(self, partition: PartitionView, header: BatchHeader, batch: memoryview) -> None:
        super().__init__(partition, header, record_batch.fingerprint_of_records(batch), batch)

    def add_to(self, frame: Frame, partition: Partition, term: Term) -> None:
        stamped = memoryview(record_batch.with_log_append_time(self.batch, frame.at.wall_ms))
        frame.add_batch(
            partition.number,
            partition.log_end_offset,
            term,
            record_batch.read(stamped),
            self.fingerprint,
            stamped,
        )


class Produced:
    """What became of each batch of a request: its offset, or the refusal of its partition."""

    __slots__ = ("appended_at_ms", "duplicates", "results")

    def __init__(self, appended_at_ms: int) -> None:
        self.appended_at_ms = appended_at_ms
        """What topics with LogAppendTime have stamped."""
        self.results: list[Offset | RequestError] = []
        self.duplicates: set[Incoming] | None = None
        """Those of them that are retries, if there are any."""

    def add_duplicate(self, incoming: Incoming) -> None:
        if self.duplicates is None:
            self.duplicates = set()
        self.duplicates.add(incoming)


class Produce:
    """Batches of different partitions, outside of transactions."""

    __slots__ = ("incoming",)

    def __init__(self, incoming: list[Incoming]) -> None:
        self.incoming = incoming

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[Produced]:
        frame = Frame(at)
        produced = Produced(at.wall_ms)
        results = produced.results
        epoch = state.epoch
        open_here = state.joined.open
        for incoming in self.incoming:
            header = incoming.header
            partition = state.partitions[incoming.partition.number]
            producer_id = header.producer_id
            try:
                if header.attributes & TRANSACTIONAL:
                    raise InvalidTransactionState("a batch of a transaction came without its id")
                if producer_id >= 0:
                    owner = state.transactions.of_producer(producer_id)
                    if owner is not None:
                        check_plain(owner)
                    if open_here and producer_id in open_here:
                        raise InvalidTransactionState("its producer has an open transaction")
                    original = partition.admit(header, incoming.fingerprint)
                    if original is not None:
                        produced.add_duplicate(incoming)
                        results.append(original)
                        continue
            except RequestError as error:
                results.append(error)
                continue
            base_offset = partition.log_end_offset
            results.append(base_offset)
            batch = incoming.batch
            if incoming.is_stamped:
                incoming.add_to(frame, partition, epoch)
            else:
                # As `add_to` does, where every call counts.
                fingerprint = incoming.fingerprint
                frame.add_batch(partition.number, base_offset, epoch, header, fingerprint, batch)
        return Decided(produced, frame)


class ProduceInTransaction:
    """Batches of different partitions that belong to one transaction.

    The coordinator is asked first, then each partition. Raises the refusal of all of them.
    """

    __slots__ = ("_dialect", "_incoming", "_transactional_id")

    def __init__(
        self, transactional_id: TransactionalId, dialect: Dialect, incoming: list[Incoming]
    ) -> None:
        self._transactional_id = transactional_id
        self._dialect = dialect
        self._incoming = incoming

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[Produced]:
        first = self._incoming[0].header
        producer = first.producer_id, first.producer_epoch
        for incoming in self._incoming[1:]:
            if (incoming.header.producer_id, incoming.header.producer_epoch) != producer:
                raise InvalidProducerIdMapping("batches of several producers in one request")
        current = state.transactions.get(self._transactional_id)
        frame = Frame(at)
        keys = [incoming.partition.topic_partition for incoming in self._incoming]
        # The epoch is checked before anything else about the transaction.
        writing = WriteRecords(*producer, frozenset(keys), self._dialect)
        _, owed_change = add_transaction(state, environment, frame, current, writing)
        results = self._admit(state)
        if results.count(None) < len(keys):
            if any(isinstance(result, SequenceReused) for result in results):
                return self._doomed(state, at, environment, results)
            frame = Frame(at)
            fresh = zip(keys, results, strict=True)
            joining = frozenset(key for key, result in fresh if result is None)
            writing = WriteRecords(*producer, joining, self._dialect)
            _, owed_change = add_transaction(state, environment, frame, current, writing)
        produced = Produced(at.wall_ms)
        for incoming, result in zip(self._incoming, results, strict=True):
            if result is not None:
                if isinstance(result, int):
                    produced.add_duplicate(incoming)
                produced.results.append(result)
                continue
            partition = state.partitions[incoming.partition.number]
            produced.results.append(partition.log_end_offset)
            incoming.add_to(frame, partition, state.epoch)
        return Decided(produced, frame, owed_change=owed_change)

    def _admit(self, state: LaneState) -> list[Offset | RequestError | None]:
        """Tell retries and refusals from new batches, partition by partition."""
        results: list[Offset | RequestError | None] = []
        is_tv2 = self._dialect is Dialect.TV2
        for incoming in self._incoming:
            partition = state.partitions[incoming.partition.number]
            try:
                results.append(
                    partition.admit(incoming.header, incoming.fingerprint, begins_at_zero=is_tv2)
                )
            except RequestError as error:
                results.append(error)
        return results

    def _doomed(
        self,
        state: LaneState,
        at: Moment,
        environment: Environment,
        results: list[Offset | RequestError | None],
    ) -> Decided[Produced]:
        """Nobody knows which records were meant: let the transaction never be committed.

        What is new in the request is refused as it would be if it came later.
        """
        first = self._incoming[0].header
        frame = Frame(at)
        current = state.transactions.get(self._transactional_id)
        doom = Doom(first.producer_id, first.producer_epoch)
        decision, _ = add_transaction(state, environment, frame, current, doom)
        assert decision.refusal is not None
        produced = Produced(at.wall_ms)
        for incoming, result in zip(self._incoming, results, strict=True):
            if result is None or isinstance(result, SequenceReused):
                produced.results.append(decision.refusal)
            else:
                if isinstance(result, int):
                    produced.add_duplicate(incoming)
                produced.results.append(result)
        return Decided(produced, frame, Claim.ENDING)


class TakeProducerId(NamedTuple):
    """A producer id that was never given and never will be again."""

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[ProducerId]:
        frame = Frame(at)
        frame.add_fact(facts.ProducerIdTaken(state.next_producer_id))
        return Decided(state.next_producer_id, frame)


class ForgetProducers(NamedTuple):
    """Those of them that a partition has not heard of since `before_ms`."""

    partition_number: int
    producer_ids: tuple[int, ...]
    before_ms: int

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        partition = state.partitions.get(self.partition_number)
        if partition is not None:
            silent = tuple(
                each for each in self.producer_ids if partition.may_forget(each, self.before_ms)
            )
            if silent:
                frame.add_fact(facts.ProducersForgotten(self.partition_number, silent))
        return Decided(None, frame, Claim.ENDING)

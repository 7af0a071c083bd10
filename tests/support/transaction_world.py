"""One transactional id under a coordinator: values applied through their bytes, time by hand."""

from semel.errors import RequestError
from semel.transactions.commands import (
    Abort,
    AddOffsets,
    AddPartitions,
    Command,
    Context,
    Decision,
    Doom,
    End,
    InitProducer,
    RaiseTerm,
    TransactionSettings,
    WriteOffsets,
    WriteRecords,
)
from semel.transactions.dialect import Dialect
from semel.transactions.joining import check_added, check_joinable
from semel.transactions.records import decode, encode
from semel.transactions.store import Transactions
from semel.transactions.transaction import Transaction
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)
from support.deciding import decide_whole

ID = TransactionalId("orders")
START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 4_000
P0, P1, P2 = (TopicPartition("out", index) for index in range(3))
TV1, TV2 = Dialect.TV1, Dialect.TV2

Producer = tuple[ProducerId, ProducerEpoch]
NOBODY: Producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class World:
    """Each step is one frame; `frames` holds what was decided, for whoever wants to look back."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.store = Transactions()
        self.now_ms = START_MS
        self.term = Term(0)
        self.next_producer_id = ProducerId(FIRST_PRODUCER_ID)
        self.settings = settings or TransactionSettings()
        self.frames: list[Decision] = []
        self.entries: list[tuple[bytes, bytes | None]] = []

    @property
    def wall_ms(self) -> int:
        """Of a clock that goes back all the time, as nothing may be decided by it."""
        return 2 * START_MS - self.now_ms

    @property
    def context(self) -> Context:
        return Context(self.wall_ms, self.term, self.next_producer_id, self.settings)

    @property
    def value(self) -> Transaction:
        value = self.store.get(ID)
        assert value is not None
        return value

    def take(self, command: Command) -> Decision:
        decision = decide_whole(self.store.get(ID), command, self.context)
        self.apply(decision)
        return decision

    def apply(self, decision: Decision) -> None:
        for value in decision.values:
            entry = encode(value)
            read = decode(*entry)
            assert read == value
            self.entries.append(entry)
            self.store.apply(read, self.now_ms)
        if decision.taken_producer_id is not None:
            assert decision.taken_producer_id == self.next_producer_id
            self.next_producer_id = ProducerId(self.next_producer_id + 1)
        if decision.values:
            self.frames.append(decision)

    def refusal(self, command: Command) -> type[RequestError]:
        """The refusal of a command that, being refused, must not change anything."""
        before = self.store.get(ID)
        try:
            decision = self.take(command)
        except RequestError as error:
            assert self.store.get(ID) == before
            return type(error)
        raise AssertionError(f"{command} was not refused: {decision}")

    # What clients do

    def init(self, producer: Producer = NOBODY, timeout_ms: int = TIMEOUT_MS) -> Producer:
        decision = self.take(InitProducer(ID, timeout_ms, *producer))
        return decision.producer_id, decision.producer_epoch

    def write(
        self, producer: Producer, *partitions: TopicPartition, dialect: Dialect = TV2
    ) -> Decision:
        """One transactional Produce, as a client of this dialect does it."""
        if dialect is TV1:
            self.take(AddPartitions(*producer, frozenset(partitions)))
        return self.take(WriteRecords(*producer, frozenset(partitions), dialect))

    def commit_offsets(self, producer: Producer, index: int, dialect: Dialect = TV2) -> Decision:
        if dialect is TV1:
            self.take(AddOffsets(*producer, index))
        return self.take(WriteOffsets(*producer, index, dialect))

    def end(self, producer: Producer, *, commit: bool, dialect: Dialect = TV2) -> Decision:
        return self.take(End(*producer, commit, dialect))

    def transact(
        self, producer: Producer, *, commit: bool = True, dialect: Dialect = TV2
    ) -> Producer:
        """A whole transaction; gives the producer that the client goes on with."""
        self.write(producer, P0, dialect=dialect)
        decision = self.end(producer, commit=commit, dialect=dialect)
        return decision.producer_id, decision.producer_epoch

    def doom(self, producer: Producer) -> Decision:
        return self.take(Doom(*producer))

    # What happens to the broker

    def pass_time(self, duration_ms: int) -> list[Decision]:
        """What is overdue then is aborted."""
        self.now_ms += duration_ms
        return [self.take(Abort()) for _ in self.store.overdue(self.now_ms, 100)]

    def raise_term(self) -> None:
        self.term = Term(self.term + 1)
        for value in self.store.open():
            self.apply(decide_whole(value, RaiseTerm(), self.context))


def takes_part(
    current: Transaction | None,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    partition: TopicPartition,
    dialect: Dialect,
    term: Term,
) -> bool:
    """What is asked of one batch: both checks, in the order in which Produce makes them."""
    current = check_joinable(current, producer_id, producer_epoch, term)
    return check_added(current, partition, dialect)


def epoch(number: int) -> ProducerEpoch:
    return ProducerEpoch(number)

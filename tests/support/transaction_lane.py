"""A broker in small: the pure parts behind one list of frames of which a suffix can be lost.

Writes are answered when they are appended, everything else when it is durable, as the law says.
"""

import random
import zlib
from typing import NamedTuple

from semel.broker.transactional import LateRequests
from semel.errors import RequestError
from semel.log.producers import Producer, SequenceReused, TakenBatch, check_unknown
from semel.log.transactions import AbortedIndex, PartitionTransactions
from semel.transactions import dialect as dialects
from semel.transactions.commands import (
    Abort,
    AddPartitions,
    Command,
    Context,
    Decision,
    Doom,
    End,
    InitProducer,
    Markers,
    RaiseTerm,
    WriteRecords,
)
from semel.transactions.dialect import Dialect, as_version
from semel.transactions.records import decode, encode
from semel.transactions.store import Transactions
from semel.transactions.transaction import Transaction
from semel.types import (
    Offset,
    ProducerEpoch,
    ProducerId,
    Sequence,
    Term,
    TopicPartition,
    TransactionalId,
)
from support.deciding import decide_whole
from support.transaction_world import takes_part

PARTITIONS = tuple(TopicPartition("out", index) for index in range(3))
VERSIONS = {
    Dialect.TV1: {AddPartitions: (24, 3), End: (26, 4), InitProducer: (22, 4)},
    Dialect.TV2: {End: (26, 5), InitProducer: (22, 5)},
}
PRODUCE_VERSIONS = {Dialect.TV1: 11, Dialect.TV2: 12}


class Produce(NamedTuple):
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partition: TopicPartition
    first_sequence: int
    records: tuple[str, ...]


class Request(NamedTuple):
    transactional_id: TransactionalId
    dialect: Dialect
    body: Produce | AddPartitions | End | InitProducer


class Reply(NamedTuple):
    code: int = 0
    producer_id: ProducerId = ProducerId(-1)
    producer_epoch: ProducerEpoch = ProducerEpoch(-1)


class Entry(NamedTuple):
    offset: Offset
    producer_id: ProducerId
    records: tuple[str, ...] | None
    """None for a marker."""
    is_abort: bool = False


class TermRaised(NamedTuple):
    term: Term


class ProducerIdTaken(NamedTuple):
    producer_id: ProducerId


Item = Transaction | Markers | Produce | TermRaised | ProducerIdTaken


class Partition:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.end = Offset(0)
        self.producers: dict[ProducerId, Producer] = {}
        self.transactions = PartitionTransactions()
        self.aborted = AbortedIndex()

    def append(self, batch: Produce) -> None:
        last = Sequence(batch.first_sequence + len(batch.records) - 1)
        producer = self.producers.setdefault(
            batch.producer_id, Producer(batch.producer_epoch, active_at_ms=0)
        )
        taken = TakenBatch(
            Sequence(batch.first_sequence), last, self.end, fingerprint(batch.records)
        )
        self.producers[batch.producer_id] = producer.took(batch.producer_epoch, taken, 0, True)
        self.transactions.wrote(batch.producer_id, self.end)
        self.entries.append(Entry(self.end, batch.producer_id, batch.records))
        self.end = Offset(self.end + len(batch.records))

    def mark(self, markers: Markers) -> None:
        producer_id = markers.producer_id
        if producer_id in self.producers:
            self.producers[producer_id] = self.producers[producer_id].ended(
                markers.producer_epoch, 0, committed=markers.commit
            )
        aborted = self.transactions.ended(producer_id, self.end, committed=markers.commit)
        if aborted is not None:
            self.aborted.add(aborted)
        self.entries.append(Entry(self.end, producer_id, None, not markers.commit))
        self.end = Offset(self.end + 1)

    def read_committed(self, start: Offset) -> list[str]:
        """What a client shows its user, by the algorithm of clients."""
        end = self.transactions.last_stable_offset
        listed = self.aborted.overlapping(start, end)
        aborting: set[ProducerId] = set()
        shown: list[str] = []
        for entry in self.entries:
            if entry.offset >= end:
                break
            if entry.offset < start:
                continue
            while listed and listed[0].first_offset <= entry.offset:
                aborting.add(listed.pop(0).producer_id)
            if entry.records is None:
                if entry.is_abort:
                    aborting.discard(entry.producer_id)
            elif entry.producer_id not in aborting:
                shown += entry.records
        return shown


class State:
    def __init__(self) -> None:
        self.transactions = Transactions()
        self.partitions = {name: Partition() for name in PARTITIONS}
        self.next_producer_id = ProducerId(0)
        self.term = Term(0)

    def apply(self, frame: list[Item], now_ms: int) -> None:
        for item in frame:
            match item:
                case Transaction():
                    value = decode(*encode(item))
                    assert value is not None
                    self.transactions.apply(value, now_ms)
                case Markers():
                    for partition in item.partitions:
                        self.partitions[partition].mark(item)
                case Produce():
                    self.partitions[item.partition].append(item)
                case TermRaised():
                    self.term = item.term
                case ProducerIdTaken():
                    self.next_producer_id = ProducerId(item.producer_id + 1)


class Lane:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now_ms = 0
        self.frames: list[list[Item]] = []
        self.durable = 0
        self.state = State()
        self.late = LateRequests()
        self.late_count = 0

    # The journal

    def append(self, items: list[Item]) -> None:
        if items:
            self.frames.append(items)
            self.state.apply(items, self.now_ms)

    def flush(self) -> None:
        self.durable = len(self.frames)
        for partition in self.state.partitions.values():
            partition.transactions.advance_high_watermark(partition.end)

    def crash(self, *, power_lost: bool) -> None:
        """A killed process loses nothing; a power loss takes some of what was not durable."""
        if power_lost:
            kept = self.rng.choice((self.durable, self.rng.randint(self.durable, len(self.frames))))
            del self.frames[kept:]
        self.state = State()
        self.late = LateRequests()
        for frame in self.frames:
            self.state.apply(frame, self.now_ms)
        self.state.transactions.start_timers(self.now_ms)
        if power_lost:
            term = Term(self.state.term + 1)
            items: list[Item] = [TermRaised(term)]
            for value in self.state.transactions.open():
                items += self._items(decide_whole(value, RaiseTerm(), self._context(term)))
            self.append(items)
        self.flush()

    # Deciding

    def _context(self, term: Term | None = None) -> Context:
        state = self.state
        return Context(self.now_ms, state.term if term is None else term, state.next_producer_id)

    def _items(self, decision: Decision) -> list[Item]:
        items: list[Item] = []
        if decision.taken_producer_id is not None:
            items.append(ProducerIdTaken(decision.taken_producer_id))
        if decision.markers is not None:
            items.append(decision.markers)
        return [*items, *decision.values]

    def tick(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        for transactional_id in self.state.transactions.overdue(self.now_ms, 100):
            value = self.state.transactions.get(transactional_id)
            self.append(self._items(decide_whole(value, Abort(), self._context())))

    def handle(self, request: Request, connection_number: int) -> tuple[Reply | None, int]:
        """The reply and the frame that must be durable before it; None closes the connection."""
        body = request.body
        api_key, version = _api_of(request)
        if not self._is_in_time(request, api_key, connection_number):
            self.late_count += 1
            return None, 0
        try:
            if isinstance(body, Produce):
                return self._produce(request, body), 0
            decision = self._decide(request, body)
        except RequestError as error:
            return Reply(as_version(error, api_key, version).code), len(self.frames)
        self.append(self._items(decision))
        reply = Reply(0, decision.producer_id, decision.producer_epoch)
        return reply, 0 if isinstance(body, AddPartitions) else len(self.frames)

    def _is_in_time(self, request: Request, api_key: int, connection_number: int) -> bool:
        body = request.body
        if request.dialect is Dialect.TV2 or isinstance(body, InitProducer):
            return True
        current = self.state.transactions.get(request.transactional_id)
        identity = (body.producer_id, body.producer_epoch)
        if current is None or identity != (current.producer_id, current.producer_epoch):
            return True
        return self.late.admit(*identity, api_key, connection_number)

    def _decide(self, request: Request, command: Command) -> Decision:
        current = self.state.transactions.get(request.transactional_id)
        return decide_whole(current, command, self._context())

    def _produce(self, request: Request, body: Produce) -> Reply:
        state = self.state
        identity = (body.producer_id, body.producer_epoch)
        current = state.transactions.get(request.transactional_id)
        is_member = takes_part(current, *identity, body.partition, request.dialect, state.term)
        first = Sequence(body.first_sequence)
        last = Sequence(body.first_sequence + len(body.records) - 1)
        producer = state.partitions[body.partition].producers.get(body.producer_id)
        if producer is None:
            check_unknown(first, from_zero=request.dialect is Dialect.TV2)
        else:
            try:
                original = producer.duplicate_of(
                    body.producer_epoch, first, last, fingerprint(body.records)
                )
            except SequenceReused:
                decision = self._decide(request, Doom(*identity))
                self.append(self._items(decision))
                assert decision.refusal is not None
                raise decision.refusal from None
            if original is not None:
                return Reply(0)
        items: list[Item] = []
        if not is_member:
            joined = WriteRecords(*identity, frozenset({body.partition}), request.dialect)
            items = self._items(self._decide(request, joined))
        self.append([*items, body])
        return Reply(0)


def fingerprint(records: tuple[str, ...]) -> int:
    return zlib.crc32("".join(records).encode())


def _api_of(request: Request) -> tuple[int, int]:
    if isinstance(request.body, Produce):
        return dialects.PRODUCE, PRODUCE_VERSIONS[request.dialect]
    return VERSIONS[request.dialect][type(request.body)]

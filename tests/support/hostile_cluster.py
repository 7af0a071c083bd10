"""Brokers of the worst kind that keep Kafka's rules, for the producer's core to live with.

Each keeps what a log must keep: sequences without gaps, five remembered batches, epochs that only
rise. Beyond that it refuses at whim, stores and says that it has not, loses connections with what
is on them in either direction, and takes in late what a lost connection had swallowed. A run is one
seeded life of a producer's core among them, and the oracle over it.
"""

import enum
from collections import deque
from dataclasses import dataclass, field
from random import Random

from semel.client.producing.batch import ProducerBatch
from semel.client.producing.core import ProducerCore
from semel.client.producing.requests import BatchAnswer, Request
from semel.client.producing.settings import ProducerSettings
from semel.errors import (
    InvalidProducerEpoch,
    LeaderNotAvailable,
    MessageTooLarge,
    NetworkException,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OutOfOrderSequence,
    RequestTimedOut,
)
from semel.records.batch import read_header
from semel.records.compression import Compression
from semel.records.records import decode_batch
from semel.types import ProducerIdAndEpoch, TopicPartition

STEP_COUNT = 120
HEALING_STEP_COUNT_MAX = 3_000
PRODUCER_ID = 7
REMEMBERED_COUNT = 5
POISON = b"poison"


@dataclass
class ProducerState:
    epoch: int
    last_sequence: int
    remembered: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_COUNT)
    )


@dataclass
class Log:
    leader_id: int
    values: list[bytes] = field(default_factory=list)
    producers: dict[int, ProducerState] = field(default_factory=dict)

    def offer(self, content: bytes) -> BatchAnswer:
        header = read_header(content)
        values = [record.value or b"" for record in decode_batch(content)]
        if POISON in values:
            return BatchAnswer(MessageTooLarge("poison"))
        state = self.producers.get(header.producer_id)
        if state is None:
            # A producer that is unknown may begin anywhere, as its records may have been deleted.
            state = self.producers[header.producer_id] = ProducerState(
                header.producer_epoch, header.base_sequence - 1
            )
        elif header.producer_epoch < state.epoch:
            return BatchAnswer(InvalidProducerEpoch("old"))
        elif header.producer_epoch > state.epoch:
            if header.base_sequence != 0:
                return BatchAnswer(OutOfOrderSequence("a new epoch begins with 0"))
            state = self.producers[header.producer_id] = ProducerState(header.producer_epoch, -1)
        for first, last, offset in state.remembered:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return BatchAnswer(None, offset)
        if header.base_sequence != (state.last_sequence + 1) % 2**31:
            return BatchAnswer(OutOfOrderSequence("gap"))
        offset = len(self.values)
        self.values += values
        state.last_sequence = header.last_sequence
        state.remembered.append((header.base_sequence, header.last_sequence, offset))
        return BatchAnswer(None, offset)


@dataclass
class Traffic:
    """One connection: requests on their way, replies on their way back."""

    node_id: int
    requests: deque[tuple[Request, list[bytes]]] = field(default_factory=deque)
    replies: deque[tuple[Request, list[BatchAnswer]]] = field(default_factory=deque)
    awaiting: deque[Request] = field(default_factory=deque)


class HostileCluster:
    def __init__(self, random: Random, places: list[TopicPartition], node_count: int) -> None:
        self.random = random
        self.node_ids = list(range(node_count))
        self.logs = {place: Log(random.choice(self.node_ids)) for place in places}
        self.whims = 0.2
        """How likely it is that a batch is refused without need."""
        self.may_lose = True
        """Whether it may remain open if a batch was stored."""
        self.late: list[Traffic] = []
        """Lost connections whose requests may still arrive."""
        self.connections: dict[int, Traffic] = {}
        self.untold: deque[Request] = deque()
        """Lost requests, of which the producer has not heard."""

    def leaders(self) -> list[tuple[TopicPartition, int | None]]:
        return [(place, log.leader_id) for place, log in self.logs.items()]

    def move_leader(self) -> None:
        log = self.random.choice(list(self.logs.values()))
        log.leader_id = self.random.choice(self.node_ids)

    def send(self, request: Request) -> None:
        traffic = self.connections.setdefault(request.node_id, Traffic(request.node_id))
        contents = [
            batch.sealed(is_transactional=False, compression=Compression.NONE)
            for batch in request.batches
        ]
        traffic.requests.append((request, contents))
        traffic.awaiting.append(request)

    def take_in(self, traffic: Traffic) -> None:
        """The broker gets the next request of this connection."""
        request, contents = traffic.requests.popleft()
        answers = [
            self._answer(traffic.node_id, batch.partition, content)
            for batch, content in zip(request.batches, contents, strict=True)
        ]
        traffic.replies.append((request, answers))

    def _answer(self, node_id: int, place: TopicPartition, content: bytes) -> BatchAnswer:
        log = self.logs[place]
        if log.leader_id != node_id:
            return BatchAnswer(NotLeaderOrFollower("moved"))
        whim = self.random.random()
        if whim < self.whims / 2:
            kind = self.random.choice([LeaderNotAvailable, NotEnoughReplicas, NotLeaderOrFollower])
            return BatchAnswer(kind("a whim"))
        answer = log.offer(content)
        if whim < self.whims and answer.error is None and self.may_lose:
            kind_after = self.random.choice([NotEnoughReplicasAfterAppend, RequestTimedOut])
            return BatchAnswer(kind_after("stored all the same"))
        return answer

    def lose(self, node_id: int) -> None:
        """The connection is gone; what is on its way to the broker may arrive late or never."""
        traffic = self.connections.pop(node_id, None)
        if traffic is None:
            return
        self.untold.extend(traffic.awaiting)
        while traffic.requests and self.random.random() < 0.4:
            traffic.requests.pop()
        self.late.append(traffic)

    def tell_of_loss(self, core: ProducerCore, now_ms: float) -> None:
        """The producer hears of one lost request, in no order."""
        number = self.random.randrange(len(self.untold))
        self.untold.rotate(-number)
        core.lost(self.untold.popleft(), NetworkException("lost"), now_ms)

    def take_in_late(self) -> None:
        traffic = self.random.choice(self.late)
        if traffic.requests:
            self.take_in(traffic)
        else:
            self.late.remove(traffic)

    def reply(self, traffic: Traffic, core: ProducerCore, now_ms: float) -> None:
        request, answers = traffic.replies.popleft()
        traffic.awaiting.popleft()
        core.answered(request, answers, now_ms)


class Temper(enum.Enum):
    PATIENT = "there is time for everything, so that all must be stored"
    HURRIED = "batches are overdue, and some are refused for good"
    ANSWERED = "some are refused for good, but every request is answered"


class Violation(AssertionError):
    """The producer broke its promise."""


class ProducerRun:
    def __init__(self, seed: int, temper: Temper, first_epoch: int = 0) -> None:
        self.random = Random(seed)
        partition_count = self.random.choice([1, 1, 2, 3])
        self.places = [TopicPartition("t", number) for number in range(partition_count)]
        self.cluster = HostileCluster(self.random, self.places, self.random.choice([1, 2, 3]))
        self.cluster.may_lose = temper is not Temper.ANSWERED
        self.temper = temper
        self.core = ProducerCore(
            ProducerSettings(
                batch_size_max=self.random.choice([1, 120, 160]),
                linger_ms=self.random.choice([0, 3]),
                delivery_timeout_ms=self.random.choice([30, 60])
                if temper is Temper.HURRIED
                else 10**9,
                request_timeout_ms=20,
                backoff_first_ms=2,
                backoff_max_ms=20,
            )
        )
        self.core.adopt(ProducerIdAndEpoch(PRODUCER_ID, first_epoch))
        self.core.learn_leaders(self.cluster.leaders())
        self.now_ms = 1_000.0
        self.handed_over: dict[TopicPartition, list[tuple[bytes, ProducerBatch, int]]] = {
            place: [] for place in self.places
        }
        self._under_way: dict[int, set[int]] = {}
        self._next_producer_id = PRODUCER_ID + 1

    def go(self) -> None:
        actions = (
            [self._append] * 4
            + [self._drain] * 4
            + [self._deliver] * 5
            + [self._reply] * 5
            + [self._tell] * 2
            + [self._wait] * 2
            + [self._lose, self._take_in_late, self._learn, self._move]
        )
        for _ in range(STEP_COUNT):
            self.random.choice(actions)()
        self._heal()
        self._check()

    def _append(self) -> None:
        place = self.random.choice(self.places)
        number = len(self.handed_over[place])
        is_poison = self.temper is not Temper.PATIENT and self.random.random() < 0.06
        value = POISON if is_poison else b"%d" % number
        batch = self.core.append(self.core.queue(place), None, value, (), 0)
        self.handed_over[place].append((value, batch, batch.record_count - 1))

    def _drain(self) -> None:
        if self.core.wants_producer_id:
            self.core.adopt(ProducerIdAndEpoch(self._next_producer_id, 0))
            self._next_producer_id += 1
        for request in self.core.drain(self.now_ms).requests:
            self._note(request)
            self.cluster.send(request)

    def _note(self, request: Request) -> None:
        under_way = self._under_way.setdefault(request.node_id, set())
        under_way.add(id(request))
        if len(under_way) > 5:
            raise Violation(f"{len(under_way)} requests to broker {request.node_id}")
        places = [batch.partition for batch in request.batches]
        if len(set(places)) != len(places):
            raise Violation("two batches of a partition in one request")

    def _forget(self, request: Request) -> None:
        self._under_way[request.node_id].discard(id(request))

    def _deliver(self) -> None:
        busy = [each for each in self.cluster.connections.values() if each.requests]
        if busy:
            self.cluster.take_in(self.random.choice(busy))

    def _reply(self) -> None:
        busy = [each for each in self.cluster.connections.values() if each.replies]
        if busy:
            self._answer(self.random.choice(busy))

    def _answer(self, traffic: Traffic) -> None:
        self._forget(traffic.awaiting[0])
        self.cluster.reply(traffic, self.core, self.now_ms)

    def _tell(self) -> None:
        if self.cluster.untold:
            before = list(self.cluster.untold)
            self.cluster.tell_of_loss(self.core, self.now_ms)
            (told,) = [each for each in before if all(each is not e for e in self.cluster.untold)]
            self._forget(told)

    def _wait(self) -> None:
        self.now_ms += self.random.choice([1, 5, 20, 60])

    def _lose(self) -> None:
        if self.cluster.may_lose:
            self.cluster.lose(self.random.choice(self.cluster.node_ids))

    def _take_in_late(self) -> None:
        if self.cluster.late:
            self.cluster.take_in_late()

    def _learn(self) -> None:
        self.core.learn_leaders(self.cluster.leaders())

    def _move(self) -> None:
        self.cluster.move_leader()

    def _heal(self) -> None:
        """The brokers come to their senses, and what is left must come to an end."""
        self.cluster.whims = 0
        self.core.close_batches()
        for _ in range(HEALING_STEP_COUNT_MAX):
            if not self.core.close_batches():
                return
            self._learn()
            self._drain()
            self._deliver()
            self._reply()
            self._tell()
            if self.random.random() < 0.3:
                self._take_in_late()
                self.now_ms += 5
        raise Violation("batches are left though the brokers are well")

    def _check(self) -> None:
        if self.core.buffered_size != 0:
            raise Violation(f"{self.core.buffered_size} bytes of memory are not given back")
        for place, records in self.handed_over.items():
            stored = self.cluster.logs[place].values
            numbers = [int(value) for value in stored]
            if len(set(numbers)) != len(numbers):
                raise Violation(f"{place}: stored twice: {numbers}")
            if numbers != sorted(numbers):
                raise Violation(f"{place}: stored out of order: {numbers}")
            for value, batch, index in records:
                self._check_record(place, value, batch, index, stored)

    def _check_record(
        self,
        place: TopicPartition,
        value: bytes,
        batch: ProducerBatch,
        index: int,
        stored: list[bytes],
    ) -> None:
        if not batch.is_done:
            raise Violation(f"{place}: {value!r} has no outcome")
        if batch.error is None:
            offset = batch.base_offset + index
            if not 0 <= offset < len(stored) or stored[offset] != value:
                raise Violation(f"{place}: {value!r} is not at offset {offset}")
        elif isinstance(batch.error, MessageTooLarge):
            if value in stored:
                raise Violation(f"{place}: {value!r} was refused and is stored")
        elif self.temper is not Temper.HURRIED:
            raise Violation(f"{place}: {value!r} was given up: {batch.error}")

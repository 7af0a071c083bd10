"""Brokers of the worst kind that keep Kafka's rules, for the producer's core to live with.

Each keeps what a log must keep: sequences without gaps, five remembered batches, epochs that only
rise. Beyond that it refuses at whim, stores and says that it has not, loses connections with what
is on them in either direction, and takes in late what a lost connection had swallowed.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from semel.client.producing.core import ProducerCore
from semel.client.producing.exchange import Answer, Request
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
from semel.types import TopicPartition

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

    def offer(self, content: bytes) -> Answer:
        header = read_header(content)
        values = [record.value or b"" for record in decode_batch(content)]
        if POISON in values:
            return Answer(MessageTooLarge("poison"))
        state = self.producers.get(header.producer_id)
        if state is None:
            # A producer that is unknown may begin anywhere, as its records may have been deleted.
            state = self.producers[header.producer_id] = ProducerState(
                header.producer_epoch, header.base_sequence - 1
            )
        elif header.producer_epoch < state.epoch:
            return Answer(InvalidProducerEpoch("old"))
        elif header.producer_epoch > state.epoch:
            if header.base_sequence != 0:
                return Answer(OutOfOrderSequence("a new epoch begins with 0"))
            state = self.producers[header.producer_id] = ProducerState(header.producer_epoch, -1)
        for first, last, offset in state.remembered:
            if (first, last) == (header.base_sequence, header.last_sequence):
                return Answer(None, offset)
        if header.base_sequence != (state.last_sequence + 1) % 2**31:
            return Answer(OutOfOrderSequence("gap"))
        offset = len(self.values)
        self.values += values
        state.last_sequence = header.last_sequence
        state.remembered.append((header.base_sequence, header.last_sequence, offset))
        return Answer(None, offset)


@dataclass
class Traffic:
    """One connection: requests on their way, replies on their way back."""

    node_id: int
    requests: deque[tuple[Request, list[bytes]]] = field(default_factory=deque)
    replies: deque[tuple[Request, list[Answer]]] = field(default_factory=deque)
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
            self._answer(traffic.node_id, batch.place, content)
            for batch, content in zip(request.batches, contents, strict=True)
        ]
        traffic.replies.append((request, answers))

    def _answer(self, node_id: int, place: TopicPartition, content: bytes) -> Answer:
        log = self.logs[place]
        if log.leader_id != node_id:
            return Answer(NotLeaderOrFollower("moved"))
        whim = self.random.random()
        if whim < self.whims / 2:
            kind = self.random.choice([LeaderNotAvailable, NotEnoughReplicas, NotLeaderOrFollower])
            return Answer(kind("a whim"))
        answer = log.offer(content)
        if whim < self.whims and answer.error is None and self.may_lose:
            kind_after = self.random.choice([NotEnoughReplicasAfterAppend, RequestTimedOut])
            return Answer(kind_after("stored all the same"))
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

"""Clients against a small broker, with a network that delays, kills and power losses; then a check.

Clients are transactional producers of both dialects. Each is a generator: it yields requests and is
sent replies, or None when it has lost patience or its connection. It retries, gives up, aborts,
dies in mid-commit and comes back, as real ones do, and notes what it may conclude from its answers.

Everything follows from the seed. The check knows what each client concluded and what a reader is
shown, and nothing of how the broker decides.
"""

import enum
import itertools
import random
from collections import Counter, deque
from collections.abc import Generator, Iterator

from semel.transactions.commands import AddPartitions, End, InitProducer
from semel.transactions.dialect import Dialect
from semel.types import Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionalId
from support.transaction_lane import PARTITIONS, Lane, Produce, Reply, Request

STEPS = 1_200
IDS = (TransactionalId("a"), TransactionalId("b"))
TIMEOUT_MS = 3_000
OUT_OF_ORDER, STALE_EPOCH, FENCED = 45, 47, 90
UNKNOWN_PRODUCER, ABORTABLE = 59, 120
GAVE_UP = -1


class Outcome(enum.Enum):
    """What the client knows of one transaction."""

    OPEN = "not ended, so it must not be seen"
    SENT = "a commit was sent and not answered"
    COMMITTED = "committed"
    ABORTED = "aborted, by the client or by a refusal that says so"


class Attempt:
    def __init__(self, name: str, dialect: Dialect) -> None:
        self.name = name
        self.dialect = dialect
        self.outcome = Outcome.OPEN
        self.records: dict[TopicPartition, list[str]] = {}


class Fatal(Exception):
    """The client ends; whoever supervises it may start another."""


Talk = Generator[tuple[str, Request], Reply | None, None]
Answer = Generator[tuple[str, Request], Reply | None, Reply | None]


class Client:
    def __init__(
        self,
        transactional_id: TransactionalId,
        dialect: Dialect,
        rng: random.Random,
        names: Iterator[int],
        attempts: list[Attempt],
    ) -> None:
        self.transactional_id = transactional_id
        self.dialect = dialect
        self._rng = rng
        self._names = names
        self._attempts = attempts
        self.producer_id = ProducerId(-1)
        self.producer_epoch = ProducerEpoch(-1)
        self._sequences: dict[TopicPartition, int] = {}

    def run(self) -> Talk:
        try:
            yield from self._init(named=False)
            while True:
                yield from self._transaction()
        except Fatal:
            return

    def _call(
        self, kind: str, body: Produce | AddPartitions | End | InitProducer, tries: int = 10**6
    ) -> Answer:
        for _ in range(tries):
            reply = yield kind, Request(self.transactional_id, self.dialect, body)
            if reply is not None:
                return reply
        return None

    def _init(self, *, named: bool) -> Talk:
        producer = (self.producer_id, self.producer_epoch) if named else ()
        reply = yield from self._call(
            "coordinator", InitProducer(self.transactional_id, TIMEOUT_MS, *producer)
        )
        assert reply is not None
        if reply.code:
            raise Fatal
        self._adopt(reply)

    def _adopt(self, reply: Reply) -> None:
        if (reply.producer_id, reply.producer_epoch) != (self.producer_id, self.producer_epoch):
            self._sequences = {}
        self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch

    def _transaction(self) -> Talk:
        name = f"{self.transactional_id}:{next(self._names)}"
        attempt = Attempt(name, self.dialect)
        self._attempts.append(attempt)
        failure = yield from self._write_all(attempt)
        if failure == 0 and self._rng.random() < 0.85:
            failure = yield from self._commit(attempt)
            if failure == 0:
                return
        attempt.outcome = Outcome.ABORTED
        yield from self._abort(failure)

    def _write_all(self, attempt: Attempt) -> Generator[tuple[str, Request], Reply | None, int]:
        rng = self._rng
        added: set[TopicPartition] = set()
        for number in range(rng.randint(1, 5)):
            partition = rng.choice(PARTITIONS)
            records = tuple(
                f"{attempt.name}/{number}.{index}" for index in range(rng.randint(1, 2))
            )
            producer = (self.producer_id, self.producer_epoch)
            if self.dialect is Dialect.TV1 and partition not in added:
                reply = yield from self._call(
                    "coordinator", AddPartitions(*producer, frozenset({partition}))
                )
                if reply is None or reply.code:
                    return GAVE_UP if reply is None else reply.code
                added.add(partition)
            attempt.records.setdefault(partition, []).extend(records)
            sequence = self._sequences.get(partition, 0)
            batch = Produce(*producer, partition, sequence, records)
            reply = yield from self._call("data", batch, tries=rng.choice((1, 3, 50)))
            if reply is None or reply.code:
                # What was not acknowledged keeps no sequence: the next batch takes it.
                return GAVE_UP if reply is None else reply.code
            self._sequences[partition] = sequence + len(records)
        return 0

    def _commit(self, attempt: Attempt) -> Generator[tuple[str, Request], Reply | None, int]:
        attempt.outcome = Outcome.SENT
        sent_count = 0
        while True:
            sent_count += 1
            command = End(self.producer_id, self.producer_epoch, True, self.dialect)
            reply = yield from self._call("coordinator", command, tries=1)
            if reply is not None:
                break
        if reply.code == 0:
            attempt.outcome = Outcome.COMMITTED
            self._adopt(reply)
        elif reply.code in (FENCED, STALE_EPOCH) and sent_count > 1:
            raise Fatal
        return reply.code

    def _abort(self, failure: int) -> Talk:
        if failure in (FENCED, STALE_EPOCH) and self._rng.random() < 0.5:
            raise Fatal
        is_tv1 = self.dialect is Dialect.TV1
        if is_tv1 and failure in (UNKNOWN_PRODUCER, STALE_EPOCH) and self._rng.random() < 0.5:
            yield from self._init(named=True)
            return
        command = End(self.producer_id, self.producer_epoch, False, self.dialect)
        reply = yield from self._call("coordinator", command)
        assert reply is not None
        if reply.code:
            raise Fatal
        self._adopt(reply)
        if is_tv1 and failure in (UNKNOWN_PRODUCER, OUT_OF_ORDER, STALE_EPOCH):
            yield from self._init(named=True)


class Connection:
    def __init__(self, number: int) -> None:
        self.number = number
        self.requests: deque[tuple[int, Session, int, Request]] = deque()
        """When each arrives, who sent it, as its how many-th request."""
        self.is_closed = False


class Session:
    """One running client and the connections it uses now."""

    def __init__(self, client: Client, talk: Talk) -> None:
        self.client = client
        self.talk = talk
        self.connections: dict[str, Connection] = {}
        self.ticket = 0
        self.kind = ""
        self.is_over = False


class Chaos:
    def __init__(self, seed: int, dialect: Dialect | None = None) -> None:
        self.rng = random.Random(seed)
        self.lane = Lane(self.rng)
        self._dialect = dialect
        self._step = 0
        self._names = itertools.count()
        self._numbers = itertools.count(1)
        self.attempts: list[Attempt] = []
        self._connections: list[Connection] = []
        self._replies: list[tuple[int, Session, int, Reply]] = []
        self._sessions: list[Session] = []
        self._read: set[str] = set()
        """What readers were shown at any time: none of it may ever vanish."""

    def run(self) -> list[str]:
        """Violations, in words; none if every conclusion of every client was right."""
        for transactional_id in IDS:
            self._spawn(transactional_id)
        for self._step in range(STEPS):
            self._advance()
        self.lane.tick(2 * TIMEOUT_MS)
        self.lane.flush()
        return self._violations()

    # One step

    def _advance(self) -> None:
        rng = self.rng
        choice = rng.random()
        if choice < 0.5:
            self._serve()
        elif choice < 0.57:
            self.lane.flush()
        elif choice < 0.95:
            self._release()
        elif choice < 0.97:
            self._lose_patience(rng.choice(self._delayed() or self._sessions))
        elif choice < 0.98:
            self._show()
        elif choice < 0.99:
            self.lane.tick(rng.choice((1, 10, 200)))
        elif choice < 0.994:
            self._supervise(rng.choice(IDS))
        else:
            self._crash(power_lost=rng.random() < 0.6)

    def _serve(self) -> None:
        ready = [
            connection
            for connection in self._connections
            if connection.requests and connection.requests[0][0] <= self._step
        ]
        if not ready:
            return
        connection = self.rng.choice(ready)
        _, session, ticket, request = connection.requests.popleft()
        reply, position = self.lane.handle(request, connection.number)
        if reply is None:
            self._drop(connection)
        elif not connection.is_closed:
            self._replies.append((position, session, ticket, reply))
        if connection.is_closed and not connection.requests:
            self._connections.remove(connection)
            self.lane.late.closed(connection.number)

    def _drop(self, connection: Connection) -> None:
        connection.requests.clear()
        connection.is_closed = True

    def _release(self) -> None:
        due = [reply for reply in self._replies if reply[0] <= self.lane.durable]
        self._replies = [reply for reply in self._replies if reply[0] > self.lane.durable]
        for _, session, ticket, reply in due:
            if ticket == session.ticket and not session.is_over:
                self._resume(session, reply)

    def _delayed(self) -> list[Session]:
        """Those whose request is held up on its way: they are the first to lose patience."""
        return [
            session
            for connection in self._connections
            for arrives, session, ticket, _ in connection.requests
            if arrives > self._step and ticket == session.ticket and not session.is_over
        ]

    def _lose_patience(self, session: Session) -> None:
        """The client closes its connection; what it has sent may still arrive."""
        if session.is_over:
            return
        connection = session.connections.pop(session.kind, None)
        if connection is not None:
            connection.is_closed = True
        self._resume(session, None)

    def _resume(self, session: Session, reply: Reply | None) -> None:
        try:
            kind, request = session.talk.send(reply)
        except StopIteration:
            session.is_over = True
            self._spawn(session.client.transactional_id)
            return
        self._send(session, kind, request)

    def _send(self, session: Session, kind: str, request: Request) -> None:
        connection = session.connections.get(kind)
        if connection is None or connection.is_closed:
            connection = session.connections[kind] = Connection(next(self._numbers))
            self._connections.append(connection)
            self.lane.late.opened(connection.number)
        session.ticket += 1
        session.kind = kind
        delay = self.rng.choice((0, 0, 0, 0, 0, 0, 0, 0, 5, 100))
        arrives = self._step + delay
        if connection.requests:
            arrives = max(arrives, connection.requests[-1][0])
        connection.requests.append((arrives, session, session.ticket, request))

    def _spawn(self, transactional_id: TransactionalId) -> None:
        self._sessions = [session for session in self._sessions if not session.is_over]
        dialect = self._dialect or self.rng.choice((Dialect.TV1, Dialect.TV2))
        client = Client(transactional_id, dialect, self.rng, self._names, self.attempts)
        session = Session(client, client.run())
        self._sessions.append(session)
        kind, request = next(session.talk)
        self._send(session, kind, request)

    def _supervise(self, transactional_id: TransactionalId) -> None:
        """A new incarnation, while the old one has died or lives on as a zombie."""
        for session in self._sessions:
            if session.client.transactional_id == transactional_id and self.rng.random() < 0.6:
                session.is_over = True
                session.ticket += 1
        self._spawn(transactional_id)

    def _crash(self, *, power_lost: bool) -> None:
        self.lane.crash(power_lost=power_lost)
        for connection in self._connections:
            self._drop(connection)
        self._connections.clear()
        self._replies.clear()
        for session in tuple(self._sessions):
            self._lose_patience(session)

    def _show(self) -> None:
        for partition in self.lane.state.partitions.values():
            self._read.update(partition.read_committed(Offset(0)))

    # The check

    def _violations(self) -> list[str]:
        found: list[str] = []
        shown: Counter[str] = Counter()
        for name, partition in self.lane.state.partitions.items():
            if partition.transactions.last_stable_offset != partition.end:
                found.append(f"{name} is stuck")
            whole = partition.read_committed(Offset(0))
            start = Offset(self.rng.randint(0, partition.end))
            part = partition.read_committed(start)
            if part and part != whole[-len(part) :]:
                found.append(f"{name} shows something else when read from {start}")
            shown.update(whole)
        found += [
            f"{record} is there {count} times" for record, count in shown.items() if count > 1
        ]
        found += [f"{record} was read and has vanished" for record in self._read - shown.keys()]
        for attempt in self.attempts:
            found += _judge(attempt, shown)
        return found


def _judge(attempt: Attempt, shown: dict[str, int]) -> list[str]:
    sent = [record for records in attempt.records.values() for record in records]
    seen = [record for record in sent if record in shown]
    label = f"TV{int(attempt.dialect)} {attempt.name} ({attempt.outcome.value})"
    if attempt.outcome is Outcome.COMMITTED and seen != sent:
        return [f"{label}: {len(seen)} of {len(sent)} records are there"]
    if attempt.outcome in (Outcome.ABORTED, Outcome.OPEN) and seen:
        return [f"{label}: {len(seen)} records are seen"]
    if seen and seen != sent:
        return [f"{label}: torn, {len(seen)} of {len(sent)}"]
    return []

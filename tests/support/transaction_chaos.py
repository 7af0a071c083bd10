"""Clients against a small broker, with a network that delays, kills and power losses; then a check.

Everything follows from the seed. The check knows what each client concluded and what a reader is
shown, and nothing of how the broker decides.
"""

import itertools
import random
from collections import Counter, deque

from semel.transactions.dialect import Dialect
from semel.types import Offset, TransactionalId
from support.transaction_clients import TIMEOUT_MS, Attempt, Client, Outcome, Talk
from support.transaction_lane import Lane, Reply, Request

STEPS = 1_200
IDS = (TransactionalId("a"), TransactionalId("b"))


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

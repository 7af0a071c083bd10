"""Transactional producers of both dialects, and what each may conclude from its answers.

A client is a generator: it yields requests and is sent replies, or None when it has lost patience
or its connection. It retries, gives up, aborts, dies in mid-commit and comes back, as real ones do.
"""

import enum
import random
from collections.abc import Generator, Iterator

from semel.transactions.commands import AddPartitions, End, InitProducer
from semel.transactions.dialect import Dialect
from semel.types import ProducerEpoch, ProducerId, TopicPartition, TransactionalId
from support.transaction_lane import PARTITIONS, Produce, Reply, Request

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
        identity = (self.producer_id, self.producer_epoch) if named else ()
        reply = yield from self._call(
            "coordinator", InitProducer(self.transactional_id, TIMEOUT_MS, *identity)
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
            identity = (self.producer_id, self.producer_epoch)
            if self.dialect is Dialect.TV1 and partition not in added:
                reply = yield from self._call(
                    "coordinator", AddPartitions(*identity, frozenset({partition}))
                )
                if reply is None or reply.code:
                    return GAVE_UP if reply is None else reply.code
                added.add(partition)
            attempt.records.setdefault(partition, []).extend(records)
            sequence = self._sequences.get(partition, 0)
            batch = Produce(*identity, partition, sequence, records)
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

"""Semel's own clients: the producer, with and without transactions, and an application."""

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

import semel
from chaos.scene import CLIENT_TIMEOUT_MS, LEFT, PLAIN, RIGHT, SENDS_PER_TURN, TURN_S, Client
from semel import App, Producer, Record, Transaction
from semel.app.progress import Counts
from semel.client.outcome import MustStop, OutcomeUnknown, TransactionFailed
from semel.client.producing.blocking import BlockingSent
from semel.types import TopicPartition
from semel.verify.judging.operations import End, Init, Known, Send

UNDER_WAY_MAX: Final = 100
ABORTED_OF_TEN: Final = 1
IDLE_S: Final = 60.0
SESSION_MS: Final = 10_000
MOMENT_S: Final = 0.05
MOMENTS: Final = (100, 600)


class OurProducer(Client):
    is_quick = True

    def open(self) -> None:
        self._producer = Producer(self.scene.servers, request_timeout_ms=CLIENT_TIMEOUT_MS)
        self._under_way: deque[tuple[float, TopicPartition, str, BlockingSent]] = deque()
        self._count = 0

    def turn(self) -> None:
        for _ in range(SENDS_PER_TURN):
            partition, value = self.pick((PLAIN,)), f"{self.name}-{self._count}"
            began_s = self.scene.now_s()
            sent = self._producer.send(
                partition.topic, value.encode(), partition=partition.partition
            )
            self._under_way.append((began_s, partition, value, sent))
            self._count += 1
        while self._under_way and len(self._under_way) >= UNDER_WAY_MAX:
            self._await()
        self.scene.stopping.wait(TURN_S)
        while self._under_way and self._under_way[0][3].done():
            self._await()

    def _await(self) -> None:
        began_s, partition, value, sent = self._under_way.popleft()
        # Whatever is refused here is a failure of the run.
        offset = sent.result(IDLE_S).offset
        self.scene.note(
            Send(self.scene.since(began_s), self.name, partition, value, Known.OK, offset)
        )
        self.done_count += 1

    def close(self) -> None:
        while self._under_way:
            self._await()
        self._producer.close()


class OurTransactions(Client):
    is_quick = True

    def open(self) -> None:
        self.fatal: list[str] = []
        self._number = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = f"{self.name}.{self.restarts}"
        self._producer = Producer(
            self.scene.servers,
            transactional_id=self.name,
            transaction_timeout_ms=30_000,
            request_timeout_ms=CLIENT_TIMEOUT_MS,
        )
        began_s = self.scene.now_s()
        self._producer.init_transactions()
        self.scene.note(Init(self.scene.since(began_s), self._process, self.name))

    def turn(self) -> None:
        self._number += 1
        transaction = f"{self._process}-{self._number}"
        is_commit = self.random.randrange(10) >= ABORTED_OF_TEN
        sent: list[tuple[float, TopicPartition, str, BlockingSent]] = []
        began_s = self.scene.now_s()
        known = Known.OK
        try:
            self._producer.begin_transaction()
            for number in range(self.random.randint(1, 6)):
                partition, value = self.pick((LEFT, RIGHT)), f"{transaction}/{number}"
                record = self._producer.send(
                    partition.topic, value.encode(), partition=partition.partition
                )
                sent.append((self.scene.now_s(), partition, value, record))
            began_s = self.scene.now_s()
            if is_commit:
                self._producer.commit_transaction()
            else:
                self._producer.abort_transaction()
            self.done_count += 1
        except (MustStop, OutcomeUnknown) as error:
            self.fatal.append(f"{transaction}: {error}")
            known = Known.UNKNOWN
        except TransactionFailed:
            is_commit = False
            try:
                self._producer.abort_transaction()
            except TransactionFailed as error:
                self.fatal.append(f"{transaction}: {error}")
                known = Known.UNKNOWN
        for sent_s, partition, value, record in sent:
            is_stored = known is Known.OK and is_commit
            self.scene.note(
                Send(
                    self.scene.since(sent_s),
                    self._process,
                    partition,
                    value,
                    Known.OK if is_stored else Known.UNKNOWN,
                    record.result(0).offset if is_stored else None,
                    transaction,
                )
            )
        self.scene.note(
            End(self.scene.since(began_s), self._process, transaction, known, is_commit)
        )
        if known is Known.UNKNOWN:
            self._producer.close()
            self.restarts += 1
            self._begin_anew()
        self.scene.stopping.wait(TURN_S)

    def close(self) -> None:
        self._producer.close()


class OurApplication(Client):
    """Copies a topic, each record once; it leaves its group and comes back again and again."""

    group: Final = "application"
    target: Final = "applied"

    def open(self) -> None:
        self._app = App(self.scene.servers, request_timeout_ms=CLIENT_TIMEOUT_MS)

        @self._app.listener(
            PLAIN,
            group=self.group,
            request_timeout_ms=CLIENT_TIMEOUT_MS,
            # What it says when it leaves may be lost with a leader.
            session_timeout_ms=SESSION_MS,
        )
        @self._app.transactional
        def copy(record: Record, out: Transaction) -> None:
            out.send(self.target, record.value)

    def turn(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        """For a while, so that it is in the middle of something when it leaves."""
        before = self.done_count
        async with self._app.running() as running:
            for _ in range(self.random.randint(*MOMENTS)):
                await asyncio.sleep(MOMENT_S)
                self.done_count = before + _records(running.counts())
                if self.scene.stopping.is_set():
                    break

    def finish(self) -> None:
        """What is left, once nobody writes any more."""
        self._app.run_until_idle(timeout_s=IDLE_S)


def _records(counts: Mapping[str, Counts]) -> int:
    return sum(each.records for each in counts.values())


def copies_of(servers: str, source: str, target: str) -> tuple[list[bytes], list[bytes]]:
    """What was lost and what was doubled."""
    wanted, found = (
        semel.read(topic, bootstrap_servers=servers, columns=["value"]).column("value").to_pylist()
        for topic in (source, target)
    )
    doubled = [value for value, count in Counter(found).items() if count > 1]
    return sorted(set(wanted) - set(found)), doubled

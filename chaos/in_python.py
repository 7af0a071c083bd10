"""Clients in Python alone: kafka-python and aiokafka, unmodified and transactional, with their own
defaults but for how long they wait for an answer."""

import asyncio
import contextlib
import logging
from typing import Any, Final

import kafka
from aiokafka import AIOKafkaProducer
from aiokafka.structs import RecordMetadata
from kafka.errors import KafkaTimeoutError
from kafka.producer.future import FutureRecordMetadata

from chaos.scene import CLIENT_TIMEOUT_MS, LEFT, RIGHT, TURN_S, Client, Hung, within
from semel.types import TopicPartition
from semel.verify.judging.operations import End, Init, Known, Send

ABORTED_OF_TEN: Final = 1
RECORDS_MAX: Final = 6
ANSWER_S: Final = 30.0
PATIENCE_S: Final = 3.0
"""kafka-python 3.0 drops a request whose coordinator cuts it off while it connects, and waits for
its answer for ever: its program is out of patience some time, and starts it again."""


# What they complain of while nodes are away is what this is about.
for noisy in ("aiokafka", "kafka"):
    logging.getLogger(noisy).setLevel(logging.CRITICAL)


class _Sent:
    """What was handed over for one transaction, to be told of when it has ended."""

    def __init__(self, client: "_Transactions", transaction: str) -> None:
        self._client = client
        self._transaction = transaction
        self._sends: list[tuple[float, TopicPartition, str, int | None]] = []

    def add(self, began_s: float, partition: TopicPartition, value: str) -> None:
        self._sends.append((began_s, partition, value, None))

    def stored_at(self, offsets: list[int]) -> None:
        self._sends = [
            (*sent[:3], offset) for sent, offset in zip(self._sends, offsets, strict=True)
        ]

    def tell(self, began_s: float, known: Known, *, is_commit: bool) -> None:
        scene, process = self._client.scene, self._client.process
        is_stored = known is Known.OK and is_commit
        for sent_s, partition, value, offset in self._sends:
            scene.note(
                Send(
                    scene.since(sent_s),
                    process,
                    partition,
                    value,
                    Known.OK if is_stored else Known.UNKNOWN,
                    offset if is_stored else None,
                    self._transaction,
                )
            )
        scene.note(End(scene.since(began_s), process, self._transaction, known, is_commit))


class _Transactions(Client):
    """Whatever fails is aborted, and if that fails too, a new producer goes on."""

    def open(self) -> None:
        self.fatal: list[str] = []
        self.hung: list[str] = []
        self._number = 0
        self.process = ""
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.process = f"{self.name}.{self.restarts}"
        began_s = self.scene.now_s()
        while True:
            try:
                self.start_producer()
            except Exception:
                # It may be that nobody leads for a moment, which some of them do not wait for.
                self.drop_producer()
                if self.scene.stopping.wait(TURN_S):
                    raise
            else:
                break
        self.scene.note(Init(self.scene.since(began_s), self.process, self.name))

    def turn(self) -> None:
        self._number += 1
        transaction = f"{self.process}-{self._number}"
        is_commit = self.random.randrange(10) >= ABORTED_OF_TEN
        sent = _Sent(self, transaction)
        began_s = self.scene.now_s()
        is_ending = False
        try:
            self.begin()
            for number in range(self.random.randint(1, RECORDS_MAX)):
                partition, value = self.pick((LEFT, RIGHT)), f"{transaction}/{number}"
                sent.add(self.scene.now_s(), partition, value)
                self.send(partition, value)
            if is_commit:
                sent.stored_at(self.offsets())
            began_s, is_ending = self.scene.now_s(), True
            self.end(is_commit=is_commit)
            sent.tell(began_s, Known.OK, is_commit=is_commit)
            self.done_count += 1
        except Exception as error:  # noqa: BLE001 - each client has its own.
            self._recover(sent, began_s, error, may_be_committed=is_ending and is_commit)
        self.scene.stopping.wait(TURN_S)

    def _recover(
        self, sent: _Sent, began_s: float, error: Exception, *, may_be_committed: bool
    ) -> None:
        if not may_be_committed:
            try:
                self.end(is_commit=False)
            except Exception:  # noqa: BLE001 - a new producer ends it.
                pass
            else:
                sent.tell(began_s, Known.OK, is_commit=False)
                return
        (self.hung if isinstance(error, Hung) else self.fatal).append(f"{self.process}: {error!r}")
        sent.tell(began_s, Known.UNKNOWN, is_commit=False)
        self.drop_producer()
        self.restarts += 1
        self._begin_anew()

    def close(self) -> None:
        self.drop_producer()

    # As each of them has it

    def start_producer(self) -> None:
        raise NotImplementedError

    def drop_producer(self) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        raise NotImplementedError

    def send(self, partition: TopicPartition, value: str) -> None:
        raise NotImplementedError

    def offsets(self) -> list[int]:
        """Where what was sent is stored, once it is."""
        raise NotImplementedError

    def end(self, *, is_commit: bool) -> None:
        raise NotImplementedError


class KafkaPythonTransactions(_Transactions):
    _producer: kafka.KafkaProducer | None = None

    def start_producer(self) -> None:
        self._sent: list[FutureRecordMetadata] = []
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=self.scene.servers.split(","),
            transactional_id=self.name,
            transaction_timeout_ms=30_000,
            request_timeout_ms=CLIENT_TIMEOUT_MS,
            max_block_ms=int(PATIENCE_S * 1000),
            # All of this it waits for the first node that it happens to ask.
            bootstrap_timeout_ms=int(PATIENCE_S * 1000),
        )
        self._producer.init_transactions()

    def drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=1)
        except KafkaTimeoutError:
            # Of records that it cannot send, which leaves its thread and its connections behind.
            sender = producer._sender  # noqa: SLF001 - it has no other way to give up.
            sender.force_close()
            sender.join(PATIENCE_S)
            producer.close(timeout=1)

    def begin(self) -> None:
        self._sent.clear()
        self._live().begin_transaction()

    def send(self, partition: TopicPartition, value: str) -> None:
        topic, number = partition
        self._sent.append(self._live().send(topic, value.encode(), partition=number))

    def offsets(self) -> list[int]:
        return [int(each.get(PATIENCE_S).offset) for each in self._sent]

    def end(self, *, is_commit: bool) -> None:
        live = self._live()
        within(PATIENCE_S, live.commit_transaction if is_commit else live.abort_transaction)

    def _live(self) -> kafka.KafkaProducer:
        assert self._producer is not None
        return self._producer


class AioKafkaTransactions(_Transactions):
    _producer: AIOKafkaProducer | None = None

    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A producer that has failed leaves futures behind that nobody asks.
        self._loop.set_exception_handler(lambda *_: None)
        super().open()

    def close(self) -> None:
        super().close()
        self._loop.close()

    def _do(self, work: Any) -> Any:
        async def within() -> Any:
            async with asyncio.timeout(ANSWER_S):
                return await work

        return self._loop.run_until_complete(within())

    def start_producer(self) -> None:
        self._sent: list[asyncio.Future[RecordMetadata]] = []

        async def start() -> None:
            self._producer = AIOKafkaProducer(
                bootstrap_servers=self.scene.servers,
                transactional_id=self.name,
                transaction_timeout_ms=30_000,
                request_timeout_ms=CLIENT_TIMEOUT_MS,
            )
            await self._producer.start()

        self._do(start())

    def drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            # One that has failed says so once more.
            with contextlib.suppress(Exception):
                self._do(producer.stop())

    def begin(self) -> None:
        self._sent.clear()
        self._do(self._live().begin_transaction())

    def send(self, partition: TopicPartition, value: str) -> None:
        topic, number = partition
        self._sent.append(self._do(self._live().send(topic, value.encode(), partition=number)))

    def offsets(self) -> list[int]:
        return [each.offset for each in self._do(asyncio.gather(*self._sent))]

    def end(self, *, is_commit: bool) -> None:
        live = self._live()
        self._do(live.commit_transaction() if is_commit else live.abort_transaction())

    def _live(self) -> AIOKafkaProducer:
        assert self._producer is not None
        return self._producer

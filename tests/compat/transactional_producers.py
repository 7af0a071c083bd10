"""The transactional producers of the three Python clients behind one face.

Calls block. A failure is raised as the client raises it; `is_fenced` tells whether it says that
another producer has the place.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import confluent_kafka
import kafka
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, ProducerFenced
from aiokafka.structs import TopicPartition as AioTopicPartition
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, ProducerFencedError
from kafka.structs import OffsetAndMetadata

from support.clients import DEADLINE_S, QUIET

T = TypeVar("T")


class TransactionalProducer(Protocol):
    def init(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Hand over; the record is under way when it returns, or still in the client."""

    def flush(self) -> None:
        """Return when all that was sent is acknowledged."""

    def send_offsets(self, group: str, topic: str, offset: int, partition: int = 0) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def is_fenced(self, error: BaseException) -> bool: ...
    def close(self) -> None: ...


class ConfluentProducer:
    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._servers = servers
        self.native = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                # No longer than the transaction may take, as librdkafka wants it.
                "message.timeout.ms": min(timeout_ms, 60_000),
                "linger.ms": 0,
                # With its default, to bootstrap again when no broker is left, librdkafka 2.16 was
                # seen to hang in send_offsets_to_transaction after its only broker was restarted.
                "metadata.recovery.strategy": "none",
                # Its default of ten seconds would be spent waiting after every kill.
                "reconnect.backoff.max.ms": 500,
                **QUIET,
            }
        )
        self._consumers: dict[str, confluent_kafka.Consumer] = {}

    def init(self) -> None:
        self.native.init_transactions(DEADLINE_S)

    def begin(self) -> None:
        self.native.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self.native.produce(topic, value, partition=partition)

    def flush(self) -> None:
        assert self.native.flush(DEADLINE_S) == 0

    def send_offsets(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        if group not in self._consumers:
            settings = {"bootstrap.servers": self._servers, "group.id": group, **QUIET}
            self._consumers[group] = confluent_kafka.Consumer(settings)
        metadata = self._consumers[group].consumer_group_metadata()
        position = confluent_kafka.TopicPartition(topic, partition, offset)
        self.native.send_offsets_to_transaction([position], metadata, DEADLINE_S)

    def commit(self) -> None:
        self._until_done(self.native.commit_transaction)

    def abort(self) -> None:
        self._until_done(self.native.abort_transaction)

    def _until_done(self, call: Any) -> None:
        """As its documentation asks: what is retriable is to be called again."""
        while True:
            try:
                call(DEADLINE_S)
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def is_fenced(self, error: BaseException) -> bool:
        return (
            isinstance(error, confluent_kafka.KafkaException)
            and error.args[0].code() == confluent_kafka.KafkaError._FENCED
        )

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self.native.purge()
        # One that was fenced says so once more.
        with contextlib.suppress(confluent_kafka.KafkaException):
            self.native.flush(1)


def ask_again_where_a_coordinator_is_away(producer: kafka.KafkaProducer) -> None:
    """Its sender expects to hear False, and tries again then; kafka-python 3.0 raises instead, so
    that the request is dropped and its answer is waited for for ever."""
    client = producer._sender._client
    await_ready = client.await_ready

    def is_ready(*asked: Any, **named: Any) -> bool:
        try:
            return bool(await_ready(*asked, **named))
        except KafkaConnectionError:
            return False

    client.await_ready = is_ready


class KafkaPythonProducer:
    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self.native = kafka.KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._futures: list[Any] = []
        ask_again_where_a_coordinator_is_away(self.native)

    def init(self) -> None:
        self.native.init_transactions()

    def begin(self) -> None:
        self._futures.clear()
        self.native.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._futures.append(self.native.send(topic, value, partition=partition))

    def flush(self) -> None:
        self.native.flush(DEADLINE_S)
        for future in self._futures:
            future.get(DEADLINE_S)

    def send_offsets(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        position = {kafka.TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)}
        self.native.send_offsets_to_transaction(position, group)

    def commit(self) -> None:
        self.native.commit_transaction()

    def abort(self) -> None:
        self.native.abort_transaction()

    def is_fenced(self, error: BaseException) -> bool:
        return isinstance(error, ProducerFencedError)

    def close(self) -> None:
        try:
            self.native.close(timeout=1)
        except KafkaTimeoutError:
            # Of what it cannot send, which leaves its thread and its connections behind.
            self.native._sender.force_close()
            self.native._sender.join()
            self.native.close(timeout=1)


class AioKafkaTransactionalProducer:
    """Its loop runs in a thread of its own."""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._loop = asyncio.new_event_loop()
        # A producer that has failed leaves futures behind that nobody can ask.
        self._loop.set_exception_handler(lambda *_: None)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._futures: list[Any] = []

        async def make() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        self.native = self._run(make())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def init(self) -> None:
        """It asks for its epoch when it starts."""

    def begin(self) -> None:
        self._futures.clear()
        self._run(self.native.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._futures.append(self._run(self.native.send(topic, value, partition=partition)))

    def flush(self) -> None:
        async def wait() -> None:
            await asyncio.gather(*self._futures)

        self._run(wait())

    def send_offsets(self, group: str, topic: str, offset: int, partition: int = 0) -> None:
        position = {AioTopicPartition(topic, partition): offset}
        self._run(self.native.send_offsets_to_transaction(position, group))

    def commit(self) -> None:
        self._run(self.native.commit_transaction())

    def abort(self) -> None:
        self._run(self.native.abort_transaction())

    def is_fenced(self, error: BaseException) -> bool:
        return isinstance(error, ProducerFenced)

    def close(self) -> None:
        async def stop() -> None:
            for future in self._futures:
                if future.done() and not future.cancelled():
                    future.exception()
            # A producer that has failed raises its failure once more when it is stopped.
            with contextlib.suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(5):
                    await self.native.stop()

        self._run(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


PRODUCERS: dict[str, Any] = {
    "confluent-kafka": ConfluentProducer,
    "kafka-python": KafkaPythonProducer,
    "aiokafka": AioKafkaTransactionalProducer,
}


@contextmanager
def transactional_producer(
    kind: str, servers: str, transactional_id: str, timeout_ms: int = 60_000
) -> Iterator[TransactionalProducer]:
    producer: TransactionalProducer = PRODUCERS[kind](servers, transactional_id, timeout_ms)
    try:
        yield producer
    finally:
        producer.close()

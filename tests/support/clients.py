"""The three Python clients of Kafka behind one small face, so that one test can hold all to it.

Each is used with its own defaults; only what a test asks for is set.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition

T = TypeVar("T")

DEADLINE_S = 60
QUIET = {"log_level": 0}
"""librdkafka tells standard error of every broker that is away for a moment."""

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


class Sent(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class Found(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


class Client(Protocol):
    name: str

    def produce(
        self,
        servers: str,
        topic: str,
        records: Sequence[Sent],
        *,
        acks: int | str = "all",
        compression: str = "none",
    ) -> list[int]:
        """The offset of each record; with acks=0 the client cannot know it."""

    def read(self, servers: str, topic: str, partitions: Sequence[int], count: int) -> list[Found]:
        """The first `count` records of these partitions, read by assignment."""

    def stream(
        self, servers: str, topic: str, values: Sequence[bytes], on_acked: Callable[[], None]
    ) -> None:
        """Send the values to partition 0 with idempotence on, and return when all are acknowledged.

        Batches are small, so that there are always several under way.
        """


class Confluent:
    name = "confluent-kafka"

    def produce(
        self,
        servers: str,
        topic: str,
        records: Sequence[Sent],
        *,
        acks: int | str = "all",
        compression: str = "none",
    ) -> list[int]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "acks": acks,
                "compression.type": compression,
                "linger.ms": 50,
                **QUIET,
            }
        )
        offsets: list[int | None] = [None] * len(records)
        errors: list[Any] = []

        def delivered(place: int) -> Callable[[Any, Any], None]:
            def note(error: Any, message: Any) -> None:
                if error is not None:
                    errors.append(error)
                offsets[place] = message.offset()

            return note

        for place, record in enumerate(records):
            options = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            producer.produce(
                topic,
                record.value,
                record.key,
                record.partition,
                on_delivery=delivered(place),
                headers=list(record.headers),
                **options,
            )
        assert producer.flush(DEADLINE_S) == 0
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        return [-1 if offset is None else offset for offset in offsets]

    def read(self, servers: str, topic: str, partitions: Sequence[int], count: int) -> list[Found]:
        with confluent_consumer(servers, options={"enable.auto.commit": False}) as consumer:
            consumer.assign(
                [
                    confluent_kafka.TopicPartition(topic, index, confluent_kafka.OFFSET_BEGINNING)
                    for index in partitions
                ]
            )
            return [found_by_confluent(message) for message in poll_messages(consumer, count)]

    def stream(
        self, servers: str, topic: str, values: Sequence[bytes], on_acked: Callable[[], None]
    ) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 5,
                **QUIET,
            }
        )
        errors: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                on_acked()

        for value in values:
            while True:
                try:
                    producer.produce(topic, value, partition=0, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(1)
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0
        assert not errors, errors


@contextmanager
def confluent_consumer(
    servers: str, group: str = "unused", options: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[confluent_kafka.Consumer]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            **QUIET,
            **options,
        }
    )
    try:
        yield consumer
    finally:
        close(consumer)


def close(consumer: confluent_kafka.Consumer) -> None:
    """Leave the group. Closed while a rebalance is under way, librdkafka may wait for ever for the
    assignment that closing has taken away (seen in `rd_kafka_assign0`, its broker idle and its
    group empty): no timeout of a test ends that, so it is left behind, as it has left."""
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(DEADLINE_S)


def poll_messages(consumer: confluent_kafka.Consumer, count: int) -> list[Any]:
    messages: list[Any] = []
    while len(messages) < count:
        message = consumer.poll(DEADLINE_S)
        assert message is not None, f"{len(messages)} of {count} records came"
        if message.error() is not None:
            raise confluent_kafka.KafkaException(message.error())
        messages.append(message)
    return messages


def found_by_confluent(message: Any) -> Found:
    return Found(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        message.timestamp()[1],
    )


class KafkaPython:
    name = "kafka-python"

    def produce(
        self,
        servers: str,
        topic: str,
        records: Sequence[Sent],
        *,
        acks: int | str = "all",
        compression: str = "none",
    ) -> list[int]:
        # It is idempotent by default, which needs acks=all.
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            acks=acks,
            enable_idempotence=acks == "all",
            compression_type=None if compression == "none" else compression,
            linger_ms=50,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    record.partition,
                    record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(DEADLINE_S)
            return [future.get(DEADLINE_S).offset for future in futures]
        finally:
            producer.close()

    def read(self, servers: str, topic: str, partitions: Sequence[int], count: int) -> list[Found]:
        with kafka_python_consumer(servers, None) as consumer:
            consumer.assign([kafka.TopicPartition(topic, index) for index in partitions])
            consumer.seek_to_beginning()
            return [found_by_kafka_python(record) for record in next_records(consumer, count)]

    def stream(
        self, servers: str, topic: str, values: Sequence[bytes], on_acked: Callable[[], None]
    ) -> None:
        producer = kafka.KafkaProducer(bootstrap_servers=servers, linger_ms=1, batch_size=256)
        try:
            futures = []
            for value in values:
                future = producer.send(topic, value, partition=0)
                future.add_callback(lambda _: on_acked())
                futures.append(future)
            for future in futures:
                future.get(DEADLINE_S)
        finally:
            producer.close()


@contextmanager
def kafka_python_consumer(servers: str, group: str | None, **options: Any) -> Iterator[Any]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        consumer_timeout_ms=DEADLINE_S * 1000,
        **options,
    )
    try:
        yield consumer
    finally:
        consumer.close()


def next_records(consumer: Any, count: int) -> list[Any]:
    records: list[Any] = []
    while len(records) < count:
        polled = consumer.poll(timeout_ms=DEADLINE_S * 1000, max_records=count - len(records))
        assert polled, f"{len(records)} of {count} records came"
        for batch in polled.values():
            records += batch
    return records


def found_by_kafka_python(record: Any) -> Found:
    return Found(
        record.partition,
        record.offset,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp,
    )


class AioKafka:
    name = "aiokafka"

    def produce(
        self,
        servers: str,
        topic: str,
        records: Sequence[Sent],
        *,
        acks: int | str = "all",
        compression: str = "none",
    ) -> list[int]:
        async def run() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers,
                acks=acks,
                compression_type=None if compression == "none" else compression,
                linger_ms=50,
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        record.partition,
                        record.timestamp_ms,
                        list(record.headers),
                    )
                    for record in records
                ]
                async with asyncio.timeout(DEADLINE_S):
                    answers = await asyncio.gather(*futures)
                return [-1 if answer is None else answer.offset for answer in answers]

        return run_async(run())

    def read(self, servers: str, topic: str, partitions: Sequence[int], count: int) -> list[Found]:
        async def run() -> list[Found]:
            async with AIOKafkaConsumer(
                bootstrap_servers=servers, auto_offset_reset="earliest"
            ) as consumer:
                consumer.assign([AioTopicPartition(topic, index) for index in partitions])
                async with asyncio.timeout(DEADLINE_S):
                    return [found_by_kafka_python(await consumer.getone()) for _ in range(count)]

        return run_async(run())

    def stream(
        self, servers: str, topic: str, values: Sequence[bytes], on_acked: Callable[[], None]
    ) -> None:
        async def run() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers, enable_idempotence=True, linger_ms=1, max_batch_size=256
            )
            async with producer:
                futures = []
                for value in values:
                    future = await producer.send(topic, value, partition=0)
                    future.add_done_callback(lambda _: on_acked())
                    futures.append(future)
                async with asyncio.timeout(DEADLINE_S):
                    await asyncio.gather(*futures)

        run_async(run())


CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), AioKafka())


def run_async(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Background:
    """Work in a thread, whose error is raised where it is joined."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(2 * DEADLINE_S)
        assert not self._thread.is_alive(), f"it did not end:\n{self._where()}"
        if self._error is not None:
            raise self._error

    def _where(self) -> str:
        return "".join(traceback.format_stack(sys._current_frames().get(self._thread.ident or 0)))

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  (raised again by join)
            self._error = error


class Count:
    """A number that one thread raises and another waits for."""

    def __init__(self) -> None:
        self._value = 0
        self._grown = threading.Condition()

    def add(self) -> None:
        with self._grown:
            self._value += 1
            self._grown.notify_all()

    @property
    def value(self) -> int:
        with self._grown:
            return self._value

    def reach(self, value: int) -> None:
        with self._grown:
            assert self._grown.wait_for(lambda: self._value >= value, DEADLINE_S), (
                f"{self._value} of {value}"
            )

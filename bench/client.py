"""What the clients cost: records through `send` and `poll`, and transactions, beside others'.

The machine may be busy with other things, so that the rate of records is taken per second of the
client's own processor time: what one core yields. Transactions wait most of their time, so that
theirs is taken by the clock, in turns with the client they are compared to.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bench import load
from bench.figures import Figure, Plan, durable_broker
from semel import AsyncProducer, Consumer, Producer
from semel.types import TopicPartition

TOPIC = "bench"
VALUE = b"x" * 100
BATCH_SIZE = 64 * 1024
LINGER_MS = 5
TRANSACTIONS_PER_TURN = 20
POLL_COUNT_MAX = 500


class Spent(NamedTuple):
    wall_s: float
    cpu_s: float


class _Watch:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def spent(self) -> Spent:
        return Spent(time.perf_counter() - self._wall, time.process_time() - self._cpu)


def with_semel(servers: str, count: int) -> Spent:
    with Producer(servers, linger_ms=LINGER_MS, batch_size_max=BATCH_SIZE) as producer:
        producer.send(TOPIC, VALUE).result(30)
        watch = _Watch()
        for _ in range(count):
            producer.send(TOPIC, VALUE)
        producer.flush()
        return watch.spent()


def with_semel_async(servers: str, count: int) -> Spent:
    async def work() -> Spent:
        async with AsyncProducer(
            servers, linger_ms=LINGER_MS, batch_size_max=BATCH_SIZE
        ) as producer:
            await (await producer.send(TOPIC, VALUE))
            watch = _Watch()
            for _ in range(count):
                await producer.send(TOPIC, VALUE)
            await producer.flush()
            return watch.spent()

    return asyncio.run(work())


def with_aiokafka(servers: str, count: int) -> Spent:
    from aiokafka import AIOKafkaProducer

    async def work() -> Spent:
        producer = AIOKafkaProducer(
            bootstrap_servers=servers,
            acks="all",
            enable_idempotence=True,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_SIZE,
        )
        await producer.start()
        try:
            await producer.send_and_wait(TOPIC, VALUE)
            watch = _Watch()
            for _ in range(count):
                await producer.send(TOPIC, VALUE)
            await producer.flush()
            return watch.spent()
        finally:
            await producer.stop()

    return asyncio.run(work())


def with_kafka_python(servers: str, count: int) -> Spent:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=servers, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_SIZE
    )
    try:
        producer.send(TOPIC, VALUE).get(30)
        watch = _Watch()
        for _ in range(count):
            producer.send(TOPIC, VALUE)
        producer.flush()
        return watch.spent()
    finally:
        producer.close()


def with_confluent(servers: str, count: int) -> Spent:
    from confluent_kafka import Producer as ConfluentProducer

    producer = ConfluentProducer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": LINGER_MS,
            "batch.size": BATCH_SIZE,
        }
    )
    producer.produce(TOPIC, VALUE)
    producer.flush()
    watch = _Watch()
    for _ in range(count):
        while True:
            try:
                producer.produce(TOPIC, VALUE)
            except BufferError:
                producer.poll(0.01)
            else:
                break
        producer.poll(0)
    producer.flush()
    return watch.spent()


SENDERS: dict[str, Callable[[str, int], Spent]] = {
    "semel": with_semel,
    "semel_async": with_semel_async,
    "aiokafka": with_aiokafka,
    "kafka_python": with_kafka_python,
    "confluent": with_confluent,
}


def client_send(plan: Plan) -> Iterator[Figure]:
    """Records of 100 bytes through `send`, one by one, per second of processor time."""
    count = int(plan.seconds * 20_000)
    rates: dict[str, list[float]] = {name: [] for name in SENDERS}
    clock_rates: dict[str, list[float]] = {name: [] for name in SENDERS}
    with durable_broker(num_partitions=1) as broker:
        load.wait_for_topic(broker.port, TOPIC)
        for _ in range(plan.repeats):
            for name, send in SENDERS.items():
                spent = send(broker.bootstrap_servers, count)
                rates[name].append(count / spent.cpu_s)
                clock_rates[name].append(count / spent.wall_s)
    median = {name: statistics.median(each) for name, each in rates.items()}
    detail = {f"{name}_per_cpu_s": rate for name, rate in median.items()}
    clock = {f"{name}_per_s": statistics.median(each) for name, each in clock_rates.items()}
    for ours, others in (("semel_async", "aiokafka"), ("semel", "kafka_python")):
        yield Figure(
            f"records through send: {ours} / {others}",
            median[ours] / median[others],
            ">= 2",
            detail if ours == "semel_async" else clock,
        )


def polled_by_semel(servers: str, count: int) -> Spent:
    with Consumer(servers, max_poll_records=POLL_COUNT_MAX) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        watch = _Watch()
        polled = 0
        while polled < count:
            polled += len(consumer.poll())
        return watch.spent()


def polled_by_aiokafka(servers: str, count: int) -> Spent:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Place

    async def work() -> Spent:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            consumer.assign([Place(TOPIC, 0)])
            watch = _Watch()
            polled = 0
            while polled < count:
                found = await consumer.getmany(timeout_ms=1_000, max_records=POLL_COUNT_MAX)
                polled += sum(map(len, found.values()))
            return watch.spent()
        finally:
            await consumer.stop()

    return asyncio.run(work())


def polled_by_kafka_python(servers: str, count: int) -> Spent:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Place

    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        consumer.assign([Place(TOPIC, 0)])
        watch = _Watch()
        polled = 0
        while polled < count:
            found = consumer.poll(timeout_ms=1_000, max_records=POLL_COUNT_MAX)
            polled += sum(map(len, found.values()))
        return watch.spent()
    finally:
        consumer.close()


def polled_by_confluent(servers: str, count: int) -> Spent:
    from confluent_kafka import OFFSET_BEGINNING
    from confluent_kafka import Consumer as ConfluentConsumer
    from confluent_kafka import TopicPartition as Place

    consumer = ConfluentConsumer(
        {"bootstrap.servers": servers, "group.id": "confluent", "enable.auto.commit": False}
    )
    try:
        consumer.assign([Place(TOPIC, 0, OFFSET_BEGINNING)])
        watch = _Watch()
        polled = 0
        while polled < count:
            polled += len(consumer.consume(POLL_COUNT_MAX, 1.0))
        return watch.spent()
    finally:
        consumer.close()


READERS: dict[str, Callable[[str, int], Spent]] = {
    "semel": polled_by_semel,
    "aiokafka": polled_by_aiokafka,
    "kafka_python": polled_by_kafka_python,
    "confluent": polled_by_confluent,
}


def client_poll(plan: Plan) -> Iterator[Figure]:
    """Records of 100 bytes through `poll`, 500 at a time, per second of processor time."""
    count = int(plan.seconds * 40_000)
    spent: dict[str, list[Spent]] = {name: [] for name in READERS}
    with durable_broker(num_partitions=1) as broker:
        load.wait_for_topic(broker.port, TOPIC)
        with_semel(broker.bootstrap_servers, count)
        for _ in range(plan.repeats):
            for name, read in READERS.items():
                spent[name].append(read(broker.bootstrap_servers, count))
    median = {
        name: statistics.median(count / each.cpu_s for each in turns)
        for name, turns in spent.items()
    }
    clock = {
        name: statistics.median(count / each.wall_s for each in turns)
        for name, turns in spent.items()
    }
    yield Figure(
        "records through poll: semel / aiokafka",
        median["semel"] / median["aiokafka"],
        ">= 1",
        {f"{name}_per_cpu_s": rate for name, rate in median.items()}
        | {f"{name}_per_s": rate for name, rate in clock.items()},
    )


def client_transactions(plan: Plan) -> Iterator[Figure]:
    """Transactions of one record each, in turns with confluent-kafka against the same broker."""
    from confluent_kafka import Producer as ConfluentProducer

    turns = max(15, int(plan.seconds * plan.repeats * 5))
    rates: dict[str, list[float]] = {"semel": [], "confluent": []}
    with durable_broker() as broker:
        load.wait_for_topic(broker.port, TOPIC)
        confluent = ConfluentProducer(
            {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "confluent"}
        )
        confluent.init_transactions()
        with Producer(broker.bootstrap_servers, transactional_id="semel") as producer:
            producer.init_transactions()
            for _ in range(turns):
                rates["semel"].append(_rate(lambda: _transaction(producer)))
                rates["confluent"].append(_rate(lambda: _confluent_transaction(confluent)))
    median = {name: statistics.median(each) for name, each in rates.items()}
    yield Figure(
        "transactions of one record: semel / confluent-kafka",
        median["semel"] / median["confluent"],
        ">= 1",
        {f"{name}_per_s": rate for name, rate in median.items()},
    )


def _rate(transact: Callable[[], None]) -> float:
    watch = _Watch()
    for _ in range(TRANSACTIONS_PER_TURN):
        transact()
    return TRANSACTIONS_PER_TURN / watch.spent().wall_s


def _transaction(producer: Producer) -> None:
    with producer.transaction():
        producer.send(TOPIC, VALUE)


def _confluent_transaction(producer: Any) -> None:
    producer.begin_transaction()
    producer.produce(TOPIC, VALUE)
    producer.commit_transaction()

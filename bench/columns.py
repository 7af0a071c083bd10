"""Topics to and from Arrow, beside confluent-kafka on the same broker: CPU time per record.

CPU time of the client's process, all threads, is what one core gives; the broker runs in another.
"""

import time
from collections.abc import Callable, Iterator

import confluent_kafka
import pyarrow as pa

import semel
from bench import load
from bench.figures import Figure, Plan, durable_broker
from semel.client.columns.ranges import FETCH_SIZE_MAX
from semel.client.columns.schema import schema_of
from semel.testing import Broker

COUNT_PER_SECOND = 100_000
KEY_SIZE = 10
SIZES = {"same": (90, 90), "mixed": (60, 120)}
"""The least and the largest size of the values; with their keys they are 100 bytes on average."""


def topic_to_arrow(plan: Plan) -> Iterator[Figure]:
    """The rate of `semel.read` over that of confluent-kafka's consume, both into Arrow."""
    costs: dict[str, float] = {}
    for name in SIZES:
        costs |= _reading(name, plan)
    yield _figure("topic to Arrow: rate / confluent-kafka's consume", costs, ">= 10")


def arrow_to_topic(plan: Plan) -> Iterator[Figure]:
    """The rate of `semel.write` from Arrow over that of confluent-kafka's produce from a list."""
    costs: dict[str, float] = {}
    for name in SIZES:
        costs |= _writing(name, plan)
    yield _figure("Arrow to topic: rate / confluent-kafka's produce", costs, ">= 5")


def _reading(name: str, plan: Plan) -> dict[str, float]:
    keys, values = _records(name, plan)
    count = len(keys)
    with durable_broker() as broker:
        load.wait_for_topic(broker.port, name)
        _write(broker, name, pa.table({"key": keys, "value": values}))
        return {
            name: _lowest(plan, count, lambda: _read(broker, name, count)),
            f"{name}_confluent": _lowest(plan, count, lambda: _consume(broker, name, count)),
        }


def _writing(name: str, plan: Plan) -> dict[str, float]:
    keys, values = _records(name, plan)
    count = len(keys)
    table = pa.table({"key": keys, "value": values})
    with durable_broker() as broker:
        load.wait_for_topic(broker.port, name)
        return {
            name: _lowest(plan, count, lambda: _write(broker, name, table)),
            f"{name}_confluent": _lowest(plan, count, lambda: _produce(broker, name, keys, values)),
        }


def _figure(name: str, costs: dict[str, float], limit: str) -> Figure:
    detail = {f"{kind}_ns": cost for kind, cost in costs.items()}
    detail["mixed_sizes_ratio"] = costs["mixed_confluent"] / costs["mixed"]
    return Figure(name, costs["same_confluent"] / costs["same"], limit, detail)


def _records(name: str, plan: Plan) -> tuple[list[bytes], list[bytes]]:
    least, most = SIZES[name]
    count = int(plan.seconds * COUNT_PER_SECOND)
    keys = [b"%0*d" % (KEY_SIZE, number) for number in range(count)]
    # A step that is prime to the spread, so that neighbours differ in size.
    sizes = (least + number * 23 % (most - least + 1) for number in range(count))
    return keys, [b"x" * size for size in sizes]


def _lowest(plan: Plan, count: int, work: Callable[[], object]) -> float:
    """Nanoseconds of CPU per record; what others do on the machine can only add to them."""
    costs = []
    for _ in range(plan.repeats + 1):
        started_s = time.process_time()
        work()
        costs.append((time.process_time() - started_s) / count * 1e9)
    return min(costs)


def _write(broker: Broker, topic: str, table: pa.Table) -> None:
    semel.write(topic, table, bootstrap_servers=broker.bootstrap_servers)


def _read(broker: Broker, topic: str, count: int) -> None:
    read = semel.read(topic, bootstrap_servers=broker.bootstrap_servers)
    assert read.num_rows == count, f"{read.num_rows} records were read"


def _consume(broker: Broker, topic: str, count: int) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": FETCH_SIZE_MAX,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    batches = []
    left = count
    while left:
        messages = consumer.consume(min(left, 10_000), timeout=10)
        left -= len(messages)
        columns = {
            "key": [message.key() for message in messages],
            "value": [message.value() for message in messages],
            "topic": [message.topic() for message in messages],
            "partition": [message.partition() for message in messages],
            "offset": [message.offset() for message in messages],
            "timestamp": [message.timestamp()[1] * 1000 for message in messages],
            "timestampType": [message.timestamp()[0] for message in messages],
        }
        batches.append(pa.RecordBatch.from_pydict(columns, schema=schema_of()))
    consumer.close()
    assert pa.Table.from_batches(batches).num_rows == count


def _produce(broker: Broker, topic: str, keys: list[bytes], values: list[bytes]) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 900_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": len(keys),
        }
    )
    for key, value in zip(keys, values, strict=True):
        producer.produce(topic, value=value, key=key)
    assert producer.flush(60) == 0, "records were not delivered"

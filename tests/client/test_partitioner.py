"""Keys go where other clients put them, by the hash that each of those takes by default."""

import asyncio
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

import semel
from semel.cli.main import main
from semel.client.producing.partitioners import KeyHash, murmur2
from semel.testing import Broker
from support import topics

PARTITION_COUNT = 7
KEYS = [b"%d" % number for number in range(150)] + [b"key " * number for number in range(1, 60)]
"""Of all lengths up to more than a hundred bytes."""

Placement = dict[bytes | None, int]


@given(st.binary(max_size=70))
def test_murmur2_agrees_with_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 1000))
def test_a_key_has_one_partition_and_it_exists(key: bytes, partition_count: int) -> None:
    expected = (kafka_python_murmur2(key) & 0x7FFFFFFF) % partition_count
    assert KeyHash.MURMUR2.partition_of(key, partition_count) == expected
    assert KeyHash.CRC32.partition_of(key, partition_count) == zlib.crc32(key) % partition_count


def by_confluent_kafka(servers: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "log_level": 0})
    for key in KEYS:
        producer.produce(topic, b"v", key=key)
    assert producer.flush(60) == 0


def by_kafka_python(servers: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers)
    try:
        for key in KEYS:
            producer.send(topic, b"v", key=key)
        producer.flush(60)
    finally:
        producer.close()


def by_aiokafka(servers: str, topic: str) -> None:
    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for key in KEYS:
                await producer.send(topic, b"v", key=key)

    asyncio.run(send())


def placed(broker: Broker, topic: str) -> Placement:
    """Where each key lies; none of them lies in two partitions."""
    found = {(one.key, one.partition) for one in topics.committed(broker.bootstrap_servers, topic)}
    placement = dict(found)
    assert len(placement) == len(found)
    return placement


OTHERS: dict[str, tuple[str, Callable[[str, str], None]]] = {
    "confluent-kafka": ("crc32", by_confluent_kafka),
    "kafka-python": ("murmur2", by_kafka_python),
    "aiokafka": ("murmur2", by_aiokafka),
}


@pytest.mark.parametrize("other", OTHERS)
def test_every_producer_of_ours_puts_keys_where_the_named_default_of_another_does(
    semel_broker: Broker, other: str, tmp_path: Path
) -> None:
    partitioner, send = OTHERS[other]
    servers, topic = semel_broker.bootstrap_servers, f"partitioned-{other}"
    topics.create(servers, topic, PARTITION_COUNT)
    send(servers, topic)
    theirs = placed(semel_broker, topic)
    assert theirs.keys() == set(KEYS)

    with semel.Producer(servers, partitioner=partitioner) as producer:
        for key in KEYS:
            producer.send(topic, b"v", key=key)
    table = {"key": KEYS, "value": KEYS}
    semel.write(topic, table, bootstrap_servers=servers, partitioner=partitioner)
    (lines := tmp_path / "lines").write_bytes(b"".join(key + b"|v\n" for key in KEYS))
    command = ["produce", topic, str(lines), "-K", "|", "--partitioner", partitioner]
    assert main([*command, "-b", servers]) == 0

    assert placed(semel_broker, topic) == theirs
    assert len(topics.committed(servers, topic)) == 4 * len(KEYS)


@pytest.mark.parametrize(
    ("partitioner", "librdkafka_name"),
    [("crc32", "consistent_random"), ("murmur2", "murmur2_random")],
)
def test_an_empty_key_decides_or_is_none_as_in_librdkafka(
    semel_broker: Broker, partitioner: str, librdkafka_name: str
) -> None:
    servers, topic = semel_broker.bootstrap_servers, f"partitioned-empty-{partitioner}"
    topics.create(servers, topic, PARTITION_COUNT)
    count = 10 * PARTITION_COUNT

    theirs = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "partitioner": librdkafka_name,
            # Else records without a key stay together for a while.
            "sticky.partitioning.linger.ms": 0,
            "log_level": 0,
        }
    )
    for _ in range(count):
        theirs.produce(topic, b"theirs", key=b"")
    assert theirs.flush(60) == 0
    # The name that librdkafka has for it is taken as well.
    with semel.Producer(servers, partitioner=librdkafka_name, batch_size_max=1) as producer:
        for _ in range(count):
            producer.send(topic, b"sent", key=b"")
    empty = {"key": [b""] * count, "value": [b"written"] * count}
    semel.write(topic, empty, bootstrap_servers=servers, partitioner=librdkafka_name)

    places: dict[bytes, Counter[int]] = {}
    for one in topics.committed(servers, topic):
        places.setdefault(one.value or b"", Counter())[one.partition] += 1
    counts = {value: found.total() for value, found in places.items()}
    assert counts == dict.fromkeys((b"theirs", b"sent", b"written"), count)
    if partitioner == "murmur2":
        assert len({frozenset(found) for found in places.values()}) == 1
        assert all(len(found) == 1 for found in places.values())
    else:
        assert all(len(found) > 1 for found in places.values())

"""The producer against a cluster of three brokers that is not ours: librdkafka's mock."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import semel
from semel.types import TopicPartition as Place


@pytest.fixture(scope="module")
def mock_servers() -> Iterator[str]:
    # The mock cluster lives in the client instance that made it.
    owner = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(1)


def read(servers: str, topic: str, counts: dict[int, int]) -> dict[int, list[int]]:
    """So many numbers from each partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in counts])
    found: dict[int, list[int]] = {partition: [] for partition in counts}
    while any(len(found[partition]) < count for partition, count in counts.items()):
        message = consumer.poll(30)
        assert message is not None, f"only {found} came"
        found[message.partition()].append(int(message.value()))
    consumer.close()
    return found


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_records_go_to_each_leader_in_order(mock_servers: str, compression: str) -> None:
    topic = f"leaders-{compression}"
    with semel.Producer(mock_servers, compression=compression, batch_size_max=300) as producer:
        sent = [producer.send(topic, str(number), key=str(number % 7)) for number in range(1_000)]
        places = [each.result(30) for each in sent]
    expected: dict[int, list[int]] = {}
    for number, place in enumerate(places):
        expected.setdefault(place.partition, []).append(number)
        assert place.offset == len(expected[place.partition]) - 1
    assert len(expected) > 1
    counts = {partition: len(numbers) for partition, numbers in expected.items()}
    assert read(mock_servers, topic, counts) == expected


def test_transactions_span_brokers_in_the_older_dialect(mock_servers: str) -> None:
    with semel.Producer(mock_servers, transactional_id="id", linger_ms=0) as producer:
        for number in range(3):
            with producer.transaction():
                for partition in range(4):
                    producer.send("spanned", str(number), partition=partition)
                producer.send_offsets_to_transaction({Place("spanned", 0): number}, "some-group")
        counts = dict.fromkeys(range(4), 3)
        assert read(mock_servers, "spanned", counts) == {p: [0, 1, 2] for p in range(4)}

"""The consumer against a cluster of three brokers that is not ours: librdkafka's mock."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

import semel
from semel.testing import Broker
from semel.types import TopicPartition

PARTITION_COUNT = 4  # What the mock gives a topic.


@pytest.fixture(scope="module")
def mock_servers() -> Iterator[str]:
    # The mock cluster lives in the client instance that made it.
    owner = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(1)


def fill(servers: str, topic: str, count: int) -> None:
    with semel.Producer(servers) as producer:
        for number in range(count):
            for partition in range(PARTITION_COUNT):
                producer.send(topic, str(number), partition=partition)


def test_each_leader_is_read_from(mock_servers: str) -> None:
    fill(mock_servers, "led", 500)
    places = [TopicPartition("led", number) for number in range(PARTITION_COUNT)]
    seen: list[list[int]] = [[] for _ in places]
    with semel.Consumer(mock_servers) as consumer:
        consumer.assign(places)
        for record in consumer:
            seen[record.partition].append(int(record.value))
            if sum(map(len, seen)) == 500 * PARTITION_COUNT:
                break
    assert seen == [list(range(500))] * PARTITION_COUNT


def test_a_server_that_is_away_is_passed_by(semel_broker: Broker) -> None:
    with Broker() as gone:
        servers = f"{gone.bootstrap_servers},{semel_broker.bootstrap_servers}"
    with semel.Producer(servers) as producer:
        producer.send("passed-by", b"0").result(30)
    with semel.Consumer(servers, "passed-by") as consumer:
        consumer.subscribe("passed-by")
        assert len(consumer.poll(30_000)) == 1

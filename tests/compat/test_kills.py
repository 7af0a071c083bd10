"""A broker killed or frozen under running clients: nothing is lost, doubled or reordered."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from semel.testing import Broker
from support.clients import (
    QUIET,
    Background,
    Client,
    Confluent,
    Count,
    Sent,
    confluent_consumer,
    kafka_python_consumer,
    next_records,
    poll_messages,
)

KILLS = 5
RECORD_COUNT = 4_000


@pytest.fixture
def durable_broker(tmp_path: Path) -> Iterator[Broker]:
    settings = {"group.min.session.timeout.ms": 1000}
    with Broker(data=tmp_path / "data", settings=settings) as broker:
        yield broker


def stored_values(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    reader = Confluent()
    return [each.value for each in reader.read(broker.bootstrap_servers, topic, [0], count)]


def end_offset(broker: Broker, topic: str) -> int:
    with confluent_consumer(broker.bootstrap_servers) as consumer:
        _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), 30)
        return int(end)


def test_an_idempotent_producer_under_kills_has_each_record_stored_once_in_order(
    durable_broker: Broker, client: Client
) -> None:
    broker = durable_broker
    values = [b"%d" % number for number in range(RECORD_COUNT)]
    acked = Count()
    client.produce(broker.bootstrap_servers, "t", [Sent(b"first")])
    producer = Background(lambda: client.stream(broker.bootstrap_servers, "t", values, acked.add))
    for kill in range(KILLS):
        acked.reach(1 + kill * RECORD_COUNT // (KILLS + 1))
        broker.kill()
        broker.start()
    producer.join()
    assert acked.value == RECORD_COUNT
    assert end_offset(broker, "t") == RECORD_COUNT + 1
    assert stored_values(broker, "t", RECORD_COUNT + 1) == [b"first", *values]


def test_a_broker_frozen_past_the_clients_patience_stores_each_record_once(
    durable_broker: Broker,
) -> None:
    broker = durable_broker
    Confluent().produce(broker.bootstrap_servers, "t", [Sent(b"first")])
    timeouts = Count()
    acked = Count()

    def delivered(error: object, _: object) -> None:
        assert error is None, error
        acked.add()

    def failed(error: confluent_kafka.KafkaError) -> None:
        timeouts.add()

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "socket.timeout.ms": 1000,
            "error_cb": failed,
            **QUIET,
        }
    )
    values = [b"%d" % number for number in range(40)]
    broker.pause()
    for value in values:
        producer.produce("t", value, partition=0, on_delivery=delivered)

    def poll() -> None:
        while acked.value < len(values):
            producer.poll(0.1)

    polling = Background(poll)
    timeouts.reach(1)
    broker.resume()
    polling.join()
    assert end_offset(broker, "t") == 41
    assert stored_values(broker, "t", 41) == [b"first", *values]


def test_a_group_lives_through_kills_and_keeps_what_it_committed(durable_broker: Broker) -> None:
    broker = durable_broker
    values = [b"%d" % number for number in range(300)]
    Confluent().produce(broker.bootstrap_servers, "t", [Sent(value) for value in values])
    options = {"enable.auto.commit": False, "session.timeout.ms": 6000}
    seen: list[bytes] = []
    with confluent_consumer(broker.bootstrap_servers, "g", options) as consumer:
        consumer.subscribe(["t"])
        for _ in range(3):
            messages = poll_messages(consumer, 100)
            consumer.commit(message=messages[-1], asynchronous=False)
            seen += [message.value() for message in messages]
            broker.kill()
            broker.start()
        committed = consumer.committed([confluent_kafka.TopicPartition("t", 0)], 30)
        assert committed[0].offset == 300
    assert seen == values


def test_a_new_member_goes_on_where_the_group_was_before_the_kill(durable_broker: Broker) -> None:
    broker = durable_broker
    values = [b"%d" % number for number in range(100)]
    Confluent().produce(broker.bootstrap_servers, "t", [Sent(value) for value in values])
    with kafka_python_consumer(broker.bootstrap_servers, "g", enable_auto_commit=False) as first:
        first.subscribe(["t"])
        assert [record.value for record in next_records(first, 40)] == values[:40]
        first.commit()
    broker.kill()
    broker.start()
    with kafka_python_consumer(broker.bootstrap_servers, "g", enable_auto_commit=False) as second:
        second.subscribe(["t"])
        assert [record.value for record in next_records(second, 60)] == values[40:]

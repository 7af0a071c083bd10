"""The consumers of real clients under both isolation levels, over what commits and aborts left."""

from collections.abc import Iterator, Sequence

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition

from semel.testing import Broker
from support.clients import (
    DEADLINE_S,
    confluent_consumer,
    kafka_python_consumer,
    next_records,
    poll_messages,
    run_async,
)
from support.raw_client import RawClient, produce_values
from support.transactional_wire import TV1, TV2, WireProducer

COMMITTED = [b"plain", b"tv1", b"tv2", b"after"]
ALL = [b"plain", b"aborted-1", b"tv1", b"aborted-2", b"aborted-3", b"tv2", b"after"]


def read_by_confluent(servers: str, topic: str, isolation: str, count: int) -> list[bytes | None]:
    options = {"isolation.level": isolation, "enable.auto.commit": False}
    with confluent_consumer(servers, options=options) as consumer:
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
        return [message.value() for message in poll_messages(consumer, count)]


def read_by_kafka_python(
    servers: str, topic: str, isolation: str, count: int
) -> list[bytes | None]:
    with kafka_python_consumer(servers, None, isolation_level=isolation) as consumer:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for record in next_records(consumer, count)]


def read_by_aiokafka(servers: str, topic: str, isolation: str, count: int) -> list[bytes | None]:
    async def read() -> list[bytes | None]:
        async with AIOKafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level=isolation
        ) as consumer:
            consumer.assign([AioTopicPartition(topic, 0)])
            found: Sequence[bytes | None] = [(await consumer.getone()).value for _ in range(count)]
            return list(found)

    return run_async(read())


READERS = (read_by_confluent, read_by_kafka_python, read_by_aiokafka)


@pytest.fixture(scope="module")
def history(broker: Broker) -> Iterator[str]:
    """A topic whose transactions overlap; the last of them is open."""
    topic = "history"
    with (
        RawClient(broker) as client,
        WireProducer(broker, "history-1", TV1) as old,
        WireProducer(broker, "history-2", TV2) as new,
        WireProducer(broker, "history-3", TV2) as still_open,
    ):
        client.create_topic(topic)
        for producer in (old, new, still_open):
            producer.init()
        produce_values(client, topic, [b"plain"])
        new.write(topic, b"aborted-1")
        old.write(topic, b"tv1")
        new.abort()
        new.write(topic, b"aborted-2")
        old.commit()
        old.write(topic, b"aborted-3")
        new.abort()
        new.write(topic, b"tv2")
        old.abort()
        new.commit()
        produce_values(client, topic, [b"after"])
        still_open.write(topic, b"open")
        produce_values(client, topic, [b"behind the open one"])
        yield topic
        still_open.abort()


@pytest.mark.parametrize("read", READERS)
def test_read_committed_shows_what_was_committed_and_stops_at_the_open_transaction(
    servers: str, history: str, read: object
) -> None:
    assert callable(read)
    assert read(servers, history, "read_committed", len(COMMITTED)) == COMMITTED


@pytest.mark.parametrize("read", READERS)
def test_read_uncommitted_shows_everything(servers: str, history: str, read: object) -> None:
    everything = [*ALL, b"open", b"behind the open one"]
    assert callable(read)
    assert read(servers, history, "read_uncommitted", len(everything)) == everything


def test_the_end_of_a_partition_is_the_last_stable_offset_for_read_committed(
    servers: str, history: str
) -> None:
    ends = {}
    for isolation in ("read_committed", "read_uncommitted"):
        with kafka_python_consumer(servers, None, isolation_level=isolation) as consumer:
            partition = kafka.TopicPartition(history, 0)
            ends[isolation] = consumer.end_offsets([partition])[partition]
    # Seven records, five markers; then the open record and the one behind it.
    assert ends == {"read_committed": 12, "read_uncommitted": 14}


def test_a_waiting_read_committed_consumer_is_given_a_commit_when_it_is_made(
    broker: Broker, servers: str
) -> None:
    options = {"isolation.level": "read_committed", "enable.auto.commit": False}
    with (
        RawClient(broker) as client,
        WireProducer(broker, "waited-for", TV2) as producer,
        confluent_consumer(servers, options=options) as consumer,
    ):
        client.create_topic("waited-for")
        producer.init()
        start = confluent_kafka.TopicPartition("waited-for", 0, 0)
        consumer.assign([start])
        for number in range(20):
            producer.write("waited-for", b"%d" % number)
            producer.commit()
            message = consumer.poll(DEADLINE_S)
            assert message is not None
            assert message.value() == b"%d" % number

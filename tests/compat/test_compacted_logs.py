"""Kafka's clients on a log of ours with gaps, emptied batches and a start within a batch."""

from collections.abc import Callable, Iterator

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition

from support.clients import (
    confluent_consumer,
    kafka_python_consumer,
    next_records,
    poll_messages,
    run_async,
)
from support.compacted_topic import LOG, PLACE, WITH_MARKERS, compacted_topics

ISOLATIONS = ("read_uncommitted", "read_committed")
STARTS = (LOG.start, 12, 22, 40, 61)
Found = list[tuple[int, bytes | None]]
Reader = Callable[[str, str, str, int, int], Found]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with compacted_topics(tmp_path_factory.mktemp("compacted") / "data") as broker:
        yield broker.bootstrap_servers


def read_by_confluent(servers: str, topic: str, isolation: str, start: int, count: int) -> Found:
    options = {"isolation.level": isolation, "enable.auto.commit": False}
    with confluent_consumer(servers, options=options) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
        return [(each.offset(), each.value()) for each in poll_messages(consumer, count)]


def read_by_kafka_python(servers: str, topic: str, isolation: str, start: int, count: int) -> Found:
    with kafka_python_consumer(servers, None, isolation_level=isolation) as consumer:
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, start)
        return [(each.offset, each.value) for each in next_records(consumer, count)]


def read_by_aiokafka(servers: str, topic: str, isolation: str, start: int, count: int) -> Found:
    async def read() -> Found:
        async with AIOKafkaConsumer(
            bootstrap_servers=servers, isolation_level=isolation
        ) as consumer:
            place = AioTopicPartition(topic, 0)
            consumer.assign([place])
            consumer.seek(place, start)
            records = [await consumer.getone() for _ in range(count)]
            return [(each.offset, each.value) for each in records]

    return run_async(read())


def expected(isolation: str, start: int) -> Found:
    visible = LOG.visible(is_committed_only=isolation == "read_committed")
    return [(each.offset, each.value) for each in visible if each.offset >= start]


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("read", [read_by_confluent, read_by_kafka_python, read_by_aiokafka])
def test_all_that_is_left_is_read_from_any_offset_on(
    servers: str, read: Reader, isolation: str
) -> None:
    for start in STARTS:
        wanted = expected(isolation, start)
        assert read(servers, WITH_MARKERS.topic, isolation, start, len(wanted)) == wanted


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_librdkafka_steps_over_emptied_markers(servers: str, isolation: str) -> None:
    for start in STARTS:
        wanted = expected(isolation, start)
        assert read_by_confluent(servers, PLACE.topic, isolation, start, len(wanted)) == wanted


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_the_end_is_reached_over_what_is_empty(servers: str, isolation: str) -> None:
    options = {
        "isolation.level": isolation,
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    with confluent_consumer(servers, options=options) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(PLACE.topic, 0, 61)])
        while True:
            message = consumer.poll(60)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                assert message.offset() == LOG.end
                return

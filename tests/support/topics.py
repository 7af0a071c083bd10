"""Topics of a test as librdkafka sees them: created, filled, and read as an outsider would."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

_DEADLINE_S = 60
_QUIET = {"log_level": 0}


class Read(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def name_for(request: pytest.FixtureRequest) -> str:
    """A topic of a test's own: tests of two modules may share a name, and a broker."""
    module = request.node.path.stem.removeprefix("test_")
    return re.sub(r"[^\w.-]+", "-", f"{module}-{request.node.name}")[:200]


def create(servers: str, topic: str, partition_count: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    for done in admin.create_topics([NewTopic(topic, partition_count, 1)]).values():
        done.result(_DEADLINE_S)


def grow(servers: str, topic: str, partition_count: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    for done in admin.create_partitions([NewPartitions(topic, partition_count)]).values():
        done.result(_DEADLINE_S)


def delete(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    for done in admin.delete_topics([topic]).values():
        done.result(_DEADLINE_S)


def delete_records(servers: str, topic: str, before: int, partition: int = 0) -> None:
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    place = confluent_kafka.TopicPartition(topic, partition, before)
    for done in admin.delete_records([place]).values():
        done.result(_DEADLINE_S)


def fill(
    servers: str,
    topic: str,
    values: Sequence[bytes],
    partition: int = 0,
    timestamps_ms: Sequence[int] | None = None,
    headers: list[tuple[str, bytes]] | None = None,
) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, **_QUIET})
    for number, value in enumerate(values):
        at = {} if timestamps_ms is None else {"timestamp": timestamps_ms[number]}
        producer.produce(topic, value, partition=partition, headers=headers or [], **at)
    assert producer.flush(_DEADLINE_S) == 0


@contextmanager
def transaction(servers: str, transactional_id: str) -> Iterator[confluent_kafka.Producer]:
    """A producer with an open transaction, which is for the body to end."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": transactional_id, **_QUIET}
    )
    producer.init_transactions(_DEADLINE_S)
    producer.begin_transaction()
    yield producer


def fill_transaction(
    producer: confluent_kafka.Producer, topic: str, values: Sequence[bytes], partition: int = 0
) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)
    producer.flush(_DEADLINE_S)


def committed(servers: str, topic: str) -> list[Read]:
    """Every committed record, partition by partition, up to the last stable offset."""
    return sorted(map(_read, _messages(servers, topic)), key=lambda one: one[:2])


def times_ms(servers: str, topic: str) -> dict[bytes | None, int]:
    """When each committed value came about, as its record says."""
    return {message.value(): message.timestamp()[1] for message in _messages(servers, topic)}


def _messages(servers: str, topic: str) -> list[confluent_kafka.Message]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "the-test",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **_QUIET,
        }
    )
    try:
        partitions = consumer.list_topics(topic, _DEADLINE_S).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
        found, left = [], set(partitions)
        while left:
            message = consumer.poll(_DEADLINE_S)
            assert message is not None, f"{topic} did not end"
            if message.error() is None:
                found.append(message)
            else:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                left.discard(message.partition())
    finally:
        consumer.close()
    return found


def _read(message: confluent_kafka.Message) -> Read:
    return Read(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def values(servers: str, topic: str) -> list[bytes]:
    """The committed values in sorted order, so that lost and doubled ones show."""
    return sorted(one.value or b"" for one in committed(servers, topic))

"""Reads everything when nobody writes any more."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
)
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from semel.types import TopicPartition
from semel.verify.judging.operations import AtRest, OffsetRead, Recorder, Seen, Times
from semel.world import SystemClock

WAIT_S: Final = 60.0


def note_rest(
    recorder: Recorder,
    servers: str,
    partition_counts: Mapping[str, int],
    groups: Mapping[str, Sequence[str]],
) -> None:
    """`groups` with the topics they read."""
    partitions = [
        TopicPartition(topic, index)
        for topic, count in partition_counts.items()
        for index in range(count)
    ]
    for partition in partitions:
        recorder.note(_whole(servers, partition))
    clock = SystemClock()
    for group, topics in groups.items():
        consumer = _consumer(servers, group)
        began_s = clock.monotonic_ms() / 1000
        wanted = [ConfluentPartition(*each) for each in partitions if each.topic in topics]
        for found in consumer.committed(wanted, WAIT_S):
            span = Times(began_s, clock.monotonic_ms() / 1000)
            partition = TopicPartition(found.topic, found.partition)
            recorder.note(OffsetRead(span, group, partition, max(0, found.offset)))
        consumer.close()


def _consumer(servers: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


def _end(servers: str, partition: TopicPartition, isolation: Any) -> int:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    place = ConfluentPartition(*partition)
    (asked,) = admin.list_offsets(
        {place: OffsetSpec.latest()}, isolation_level=isolation, request_timeout=WAIT_S
    ).values()
    return int(asked.result().offset)


def _whole(servers: str, partition: TopicPartition) -> AtRest:
    consumer = _consumer(servers, "at-rest")
    consumer.assign([ConfluentPartition(*partition, OFFSET_BEGINNING)])
    records: list[Seen] = []
    while True:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{partition} has no end"
        if message.error() is not None:
            # Its end, which is all that is told of in this way.
            break
        value = message.value()
        assert isinstance(value, bytes)
        records.append(Seen(int(message.offset() or 0), value.decode()))
    consumer.close()
    return AtRest(
        partition,
        tuple(records),
        _end(servers, partition, IsolationLevel.READ_UNCOMMITTED),
        _end(servers, partition, IsolationLevel.READ_COMMITTED),
    )

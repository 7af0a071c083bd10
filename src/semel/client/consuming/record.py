"""A record as a consumer hands it out."""

import enum
from typing import Any, NamedTuple

from semel.records.records import RecordHeader
from semel.types import TopicPartition


class TimestampType(enum.IntEnum):
    """Whose time a record carries, numbered as Kafka does."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: Any
    """Bytes or None, unless the consumer has a deserializer; so has the value."""
    value: Any
    headers: tuple[RecordHeader, ...] = ()

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

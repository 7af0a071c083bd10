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
    """A test may make its own, of what its function looks at."""

    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = 0
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    key: Any = None
    """Bytes or None, unless the consumer has a deserializer; so has the value."""
    value: Any = None
    headers: tuple[RecordHeader, ...] = ()

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

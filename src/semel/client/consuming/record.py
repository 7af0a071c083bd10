"""A record as a consumer hands it out."""

import enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from semel.records.records import RecordHeader
from semel.types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # A record of which nothing more is said has keys and values of any kind.
    Key = TypeVar("Key", default=Any)
    Value = TypeVar("Value", default=Any)
else:
    from typing import TypeVar

    Key = TypeVar("Key")
    Value = TypeVar("Value")


class TimestampType(enum.IntEnum):
    """Whose time a record carries, numbered as Kafka does."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple, Generic[Key, Value]):
    """`Record[str, Order]` in an annotation says what its reader makes of keys and values.

    A test may make its own, of what its function looks at.
    """

    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp_ms: int = 0
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    key: Key = None  # type: ignore[assignment]
    """Bytes or None, unless its reader asked for something else; so is the value."""
    value: Value = None  # type: ignore[assignment]
    headers: tuple[RecordHeader, ...] = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

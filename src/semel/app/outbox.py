"""What a listener's function sends: held until the function returns, dropped if it raises.

Nothing reaches the cluster before the work is done. So a function may take as long as it likes
without a transaction being open, and what a failed call had sent needs no abort.
"""

from operator import index
from typing import Any, NamedTuple

from semel.client.payloads import encode
from semel.client.producing.intake import (
    Headers,
    Serializer,
    as_headers,
    as_timestamp_ms,
)
from semel.records.records import RecordHeader


class Outgoing(NamedTuple):
    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None

    @property
    def size(self) -> int:
        return len(self.value or b"") + len(self.key or b"")


class Outbox:
    """Records to be sent once the function has returned."""

    def __init__(
        self, key_serializer: Serializer = encode, value_serializer: Serializer = encode
    ) -> None:
        self._key_bytes = key_serializer
        self._value_bytes = value_serializer
        self.records: list[Outgoing] = []
        self.size = 0
        """Bytes of keys and values."""

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Let this record be written when the function has returned."""
        # What can never be sent is refused here, where the function is seen to be at fault.
        if not isinstance(topic, str):
            raise TypeError(f"a topic is a str, not {type(topic).__name__}")
        self.put(
            Outgoing(
                topic,
                self._value_bytes(value),
                self._key_bytes(key),
                tuple(as_headers(headers)),
                None if timestamp_ms is None else as_timestamp_ms(timestamp_ms),
                None if partition is None else index(partition),
            )
        )

    def put(self, record: Outgoing) -> None:
        self.records.append(record)
        self.size += record.size

    def cut(self, count: int) -> None:
        """Forget all but the first records."""
        self.size -= sum(record.size for record in self.records[count:])
        del self.records[count:]


class Transaction(Outbox):
    """An outbox whose records are committed together with the offsets of what they came from."""

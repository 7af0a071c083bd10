"""A record that could not be worked on, as it is laid aside: itself, and what went wrong."""

from semel.app.outbox import Outgoing
from semel.app.wording import in_words
from semel.client.consuming.record import Record
from semel.records.records import RecordHeader

PREFIX = "semel.dead."
_MESSAGE_SIZE_MAX = 4096


def dead_letter(topic: str, record: Record, error: Exception, attempts: int) -> Outgoing:
    """The record with its key, value and headers, and further headers that tell its story."""
    story = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp_ms": str(record.timestamp_ms),
        "exception": _name_of(error),
        "message": in_words(error),
        "attempts": str(attempts),
    }
    added: list[RecordHeader] = [
        # A message may quote the record, which must not make the letter too large to be sent.
        (PREFIX + name, text.encode(errors="replace")[:_MESSAGE_SIZE_MAX])
        for name, text in story.items()
    ]
    return Outgoing(topic, record.value, record.key, (*record.headers, *added))


def _name_of(error: Exception) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )

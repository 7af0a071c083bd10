"""The topics named in a consumer's subscription: all that the broker reads of its metadata."""

from semel.errors import ProtocolError
from semel.records.fields import FieldReader
from semel.types import Buffer

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: Buffer) -> frozenset[str] | None:
    """None if this is not a subscription of Kafka's consumer protocol."""
    reader = FieldReader(metadata, "subscription", ProtocolError)
    try:
        if reader.int16() < 0:
            return None
        return frozenset(reader.string() for _ in range(reader.count()))
    except ProtocolError:
        return None

"""The consumer protocol: what a member tells its group's leader, and what that answers. Pure.

v1  the partitions that the member has (KIP-429)
v2  the generation in which it had them
v3  its rack
"""

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from semel.errors import ProtocolError
from semel.records.fields import FieldReader, data_field, nullable_string_field, string_field
from semel.types import Buffer, TopicPartition

_VERSION = 3
_HEAD = struct.Struct(">hi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NULL = b"\xff\xff\xff\xff"
NO_GENERATION = -1


class Subscription(NamedTuple):
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation_id: int = NO_GENERATION
    group_instance_id: str | None = None
    """Told by the coordinator, not by the member."""
    user_data: bytes | None = None
    """For the assignor, in whatever form it has agreed on."""


def encode_subscription(subscription: Subscription) -> bytes:
    user_data = subscription.user_data
    return b"".join(
        (
            _HEAD.pack(_VERSION, len(subscription.topics)),
            *(string_field(topic) for topic in sorted(subscription.topics)),
            _NULL if user_data is None else data_field(user_data),
            _encode_partitions(subscription.owned),
            _INT32.pack(subscription.generation_id),
            nullable_string_field(None),
        )
    )


def decode_subscription(metadata: Buffer, group_instance_id: str | None = None) -> Subscription:
    reader = FieldReader(metadata, "subscription", ProtocolError)
    version = reader.int16()
    topics = frozenset(reader.string() for _ in range(reader.count()))
    # A null has a size of -1, and is read as no bytes.
    user_data = reader.data() or None
    owned = frozenset(_read_partitions(reader)) if version >= 1 else frozenset()
    generation_id = reader.int32() if version >= 2 else NO_GENERATION
    return Subscription(topics, owned, generation_id, group_instance_id, user_data)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return b"".join((_VERSION.to_bytes(2, "big"), _encode_partitions(partitions), _NULL))


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    parts = [_INT32.pack(len(topics))]
    for topic, numbers in topics.items():
        parts += (string_field(topic), struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers))
    return b"".join(parts)


def _read_partitions(reader: FieldReader) -> Iterable[TopicPartition]:
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            yield TopicPartition(topic, reader.int32())


def decode_assignment(assignment: bytes) -> frozenset[TopicPartition]:
    """Empty for a member that has been given nothing yet."""
    if not assignment:
        return frozenset()
    try:
        return _read_assignment(assignment)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"assignment of {len(assignment)} bytes: {error}") from None


def _read_assignment(assignment: bytes) -> frozenset[TopicPartition]:
    position = _INT16.size  # Every version begins with the list of topics.
    (topic_count,) = _INT32.unpack_from(assignment, position)
    position += _INT32.size
    partitions: set[TopicPartition] = set()
    for _ in range(topic_count):
        (size,) = _INT16.unpack_from(assignment, position)
        position += _INT16.size
        if not 0 <= size <= len(assignment) - position:
            raise ProtocolError(f"assignment: name of {size} bytes at byte {position}")
        topic = assignment[position : position + size].decode()
        position += size
        (partition_count,) = _INT32.unpack_from(assignment, position)
        position += _INT32.size
        if not 0 <= partition_count * _INT32.size <= len(assignment) - position:
            raise ProtocolError(f"assignment: {partition_count} partitions at byte {position}")
        numbers = struct.unpack_from(f">{partition_count}i", assignment, position)
        position += partition_count * _INT32.size
        partitions.update(TopicPartition(topic, number) for number in numbers)
    return frozenset(partitions)

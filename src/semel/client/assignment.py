"""The consumer protocol's assignment: which partitions the leader of a group gave a member."""

import struct

from semel.errors import ProtocolError
from semel.types import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition]:
    """Empty for a member that has been given nothing yet."""
    if not assignment:
        return frozenset()
    try:
        return _read(assignment)
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"assignment of {len(assignment)} bytes: {error}") from None


def _read(assignment: bytes) -> frozenset[TopicPartition]:
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

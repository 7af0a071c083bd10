"""What groups write to `__consumer_offsets`, in Kafka's own key and value formats.

    key version 0, 1   a committed offset        value versions 0-4, written as 3
    key version 2      a generation of a group   value versions 0-4, written as 3

A null value forgets what its key names. An offset with an expiry of its own is written as
version 1, the only one that has the field.
"""

import struct

import msgspec

from semel.errors import CorruptJournal
from semel.records.fields import FieldReader, data_field, nullable_string_field, string_field
from semel.records.records import Record, encode_batch
from semel.types import Buffer, GroupId, MemberId, TopicPartition

OFFSET_KEY_VERSION = 1
GENERATION_KEY_VERSION = 2
VALUE_VERSION = 3
VALUE_VERSION_WITH_EXPIRY = 1
FLEXIBLE_VERSION = 4

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1


class OffsetCommitted(msgspec.Struct, frozen=True, gc=False, tag="offset"):
    group_id: GroupId
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    """Set only by the retention time that OffsetCommit carried up to version 4."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetForgotten(msgspec.Struct, frozen=True, gc=False, tag="no-offset"):
    group_id: GroupId
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RecordedMember(msgspec.Struct, frozen=True, gc=False):
    member_id: MemberId
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """Its metadata for the protocol of the generation."""
    assignment: bytes


class GenerationRecorded(msgspec.Struct, frozen=True, tag="generation"):
    """A generation whose assignment is complete, or, without members, an empty group."""

    group_id: GroupId
    protocol_type: str
    generation: int
    protocol: str | None
    leader: MemberId | None
    state_timestamp_ms: int
    members: tuple[RecordedMember, ...]


class GroupForgotten(msgspec.Struct, frozen=True, gc=False, tag="no-group"):
    group_id: GroupId


GroupRecord = OffsetCommitted | OffsetForgotten | GenerationRecorded | GroupForgotten


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The key and the value of the record that stores this."""
    match record:
        case OffsetCommitted():
            return _offset_key(record), _offset_value(record)
        case OffsetForgotten():
            return _offset_key(record), None
        case GenerationRecorded():
            return _generation_key(record), _generation_value(record)
        case GroupForgotten():
            return _generation_key(record), None


def size_alone(record: GroupRecord) -> int:
    """Bytes of a batch that holds this record alone; with others in one batch it takes less."""
    return len(encode_batch([Record(*encode(record))]))


def decode(key: Buffer, value: Buffer | None) -> GroupRecord | None:
    """What a stored record says; None for a kind of key that groups do not know."""
    reader = FieldReader(key, "key of __consumer_offsets")
    version = reader.int16()
    if version in (0, OFFSET_KEY_VERSION):
        group_id, topic, partition = GroupId(reader.string()), reader.string(), reader.int32()
        if value is None:
            return OffsetForgotten(group_id, topic, partition)
        return _read_offset(group_id, topic, partition, FieldReader(value, "offset value"))
    if version == GENERATION_KEY_VERSION:
        group_id = GroupId(reader.string())
        if value is None:
            return GroupForgotten(group_id)
        return _read_generation(group_id, FieldReader(value, "generation value"))
    return None


def _offset_key(record: OffsetCommitted | OffsetForgotten) -> bytes:
    return b"".join(
        (
            struct.pack(">h", OFFSET_KEY_VERSION),
            string_field(record.group_id),
            string_field(record.topic),
            struct.pack(">i", record.partition),
        )
    )


def _generation_key(record: GenerationRecorded | GroupForgotten) -> bytes:
    return struct.pack(">h", GENERATION_KEY_VERSION) + string_field(record.group_id)


def _offset_value(record: OffsetCommitted) -> bytes:
    metadata = string_field(record.metadata)
    if record.expire_timestamp_ms != NO_TIMESTAMP:
        head = struct.pack(">hq", VALUE_VERSION_WITH_EXPIRY, record.offset)
        times = struct.pack(">qq", record.commit_timestamp_ms, record.expire_timestamp_ms)
        return head + metadata + times
    head = struct.pack(">hqi", VALUE_VERSION, record.offset, record.leader_epoch)
    return head + metadata + struct.pack(">q", record.commit_timestamp_ms)


def _generation_value(record: GenerationRecorded) -> bytes:
    parts = [
        struct.pack(">h", VALUE_VERSION),
        string_field(record.protocol_type),
        struct.pack(">i", record.generation),
        nullable_string_field(record.protocol),
        nullable_string_field(record.leader),
        struct.pack(">qi", record.state_timestamp_ms, len(record.members)),
    ]
    for member in record.members:
        parts += (
            string_field(member.member_id),
            nullable_string_field(member.group_instance_id),
            string_field(member.client_id),
            string_field(member.client_host),
            struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms),
            data_field(member.subscription),
            data_field(member.assignment),
        )
    return b"".join(parts)


def _value_version(reader: FieldReader, kind: str) -> int:
    version = reader.int16()
    if not 0 <= version <= FLEXIBLE_VERSION:
        raise CorruptJournal(f"{kind} of version {version}; 0 to {FLEXIBLE_VERSION} are known")
    reader.flexible = version >= FLEXIBLE_VERSION
    return version


def _read_offset(
    group_id: GroupId, topic: str, partition: int, reader: FieldReader
) -> OffsetCommitted:
    version = _value_version(reader, "offset value")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else NO_TIMESTAMP
    reader.skip_tags()
    return OffsetCommitted(
        group_id,
        topic,
        partition,
        offset,
        leader_epoch,
        metadata,
        commit_timestamp_ms,
        expire_timestamp_ms,
    )


def _read_generation(group_id: GroupId, reader: FieldReader) -> GenerationRecorded:
    version = _value_version(reader, "generation value")
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    state_timestamp_ms = reader.int64() if version >= 2 else NO_TIMESTAMP
    members = tuple(_read_member(reader, version) for _ in range(reader.count()))
    reader.skip_tags()
    return GenerationRecorded(
        group_id,
        protocol_type,
        generation,
        protocol,
        None if leader is None else MemberId(leader),
        state_timestamp_ms,
        members,
    )


def _read_member(reader: FieldReader, version: int) -> RecordedMember:
    member_id = MemberId(reader.string())
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else NO_TIMESTAMP
    session_timeout_ms = reader.int32()
    subscription, assignment = reader.data(), reader.data()
    reader.skip_tags()
    return RecordedMember(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        # Version 0 knew one timeout for both.
        rebalance_timeout_ms if version >= 1 else session_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )

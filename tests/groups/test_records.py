"""The bytes of `__consumer_offsets`: what Kafka wrote can be read, what we write Kafka can read."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import CorruptJournal
from semel.groups.records import (
    GenerationRecorded,
    GroupForgotten,
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
    RecordedMember,
    decode,
    encode,
)
from semel.records.partitioning import partition_for
from semel.types import GroupId, MemberId

GROUP = GroupId("grp")
OFFSET_KEY = b"\x00\x01\x00\x03grp\x00\x02tp\x00\x00\x00\x07"
GENERATION_KEY = b"\x00\x02\x00\x03grp"

MEMBER = RecordedMember(MemberId("m-1"), "inst", "cli", "/h", 300_000, 45_000, b"\x01\x02", b"\x03")
GENERATION = GenerationRecorded(GROUP, "consumer", 5, "range", MemberId("m-1"), 1_000, (MEMBER,))


def test_an_offset_is_written_as_kafka_writes_version_3() -> None:
    record = OffsetCommitted(GROUP, "tp", 7, 42, 3, "note", 1_700_000_000_000)
    assert encode(record) == (
        OFFSET_KEY,
        b"\x00\x03"
        b"\x00\x00\x00\x00\x00\x00\x00\x2a"
        b"\x00\x00\x00\x03"
        b"\x00\x04note"
        b"\x00\x00\x01\x8b\xcf\xe5\x68\x00",
    )


def test_an_offset_with_an_expiry_of_its_own_is_written_as_version_1() -> None:
    record = OffsetCommitted(GROUP, "tp", 7, 42, -1, "", 1_000, 2_000)
    assert encode(record) == (
        OFFSET_KEY,
        b"\x00\x01" + struct.pack(">q", 42) + b"\x00\x00" + struct.pack(">qq", 1_000, 2_000),
    )


def test_a_generation_is_written_as_kafka_writes_version_3() -> None:
    assert encode(GENERATION) == (
        GENERATION_KEY,
        b"\x00\x03"
        b"\x00\x08consumer"
        b"\x00\x00\x00\x05"
        b"\x00\x05range"
        b"\x00\x03m-1"
        b"\x00\x00\x00\x00\x00\x00\x03\xe8"
        b"\x00\x00\x00\x01"
        b"\x00\x03m-1"
        b"\x00\x04inst"
        b"\x00\x03cli"
        b"\x00\x02/h"
        b"\x00\x04\x93\xe0"
        b"\x00\x00\xaf\xc8"
        b"\x00\x00\x00\x02\x01\x02"
        b"\x00\x00\x00\x01\x03",
    )


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    record = GenerationRecorded(GROUP, "consumer", 6, None, None, 0, ())
    _, value = encode(record)
    assert value == (
        b"\x00\x03\x00\x08consumer\x00\x00\x00\x06\xff\xff\xff\xff" + bytes(8) + bytes(4)
    )


def test_tombstones_are_null_values_under_the_same_keys() -> None:
    assert encode(OffsetForgotten(GROUP, "tp", 7)) == (OFFSET_KEY, None)
    assert encode(GroupForgotten(GROUP)) == (GENERATION_KEY, None)
    assert decode(OFFSET_KEY, None) == OffsetForgotten(GROUP, "tp", 7)
    assert decode(GENERATION_KEY, None) == GroupForgotten(GROUP)


@pytest.mark.parametrize(
    ("value", "leader_epoch", "expiry_ms"),
    [
        (struct.pack(">hq", 0, 42) + b"\x00\x01n" + struct.pack(">q", 9), -1, -1),
        (struct.pack(">hq", 1, 42) + b"\x00\x01n" + struct.pack(">qq", 9, 11), -1, 11),
        (struct.pack(">hq", 2, 42) + b"\x00\x01n" + struct.pack(">q", 9), -1, -1),
        (struct.pack(">hqi", 3, 42, 6) + b"\x00\x01n" + struct.pack(">q", 9), 6, -1),
        # Flexible, with a topic id in tagged field 0.
        (
            struct.pack(">hqi", 4, 42, 6)
            + b"\x02n"
            + struct.pack(">q", 9)
            + b"\x01\x00\x10"
            + bytes(16),
            6,
            -1,
        ),
    ],
)
def test_every_version_of_an_offset_can_be_read(
    value: bytes, leader_epoch: int, expiry_ms: int
) -> None:
    expected = OffsetCommitted(GROUP, "tp", 7, 42, leader_epoch, "n", 9, expiry_ms)
    assert decode(OFFSET_KEY, value) == expected


def generation_value(version: int) -> bytes:
    """The value of GENERATION in any non-flexible version, written from the schema."""

    def string(text: str) -> bytes:
        return struct.pack(">h", len(text)) + text.encode()

    value = struct.pack(">h", version) + string("consumer") + struct.pack(">i", 5)
    value += string("range") + string("m-1")
    value += struct.pack(">q", 1_000) if version >= 2 else b""
    value += struct.pack(">i", 1) + string("m-1")
    value += string("inst") if version >= 3 else b""
    value += string("cli") + string("/h")
    value += struct.pack(">i", 300_000) if version >= 1 else b""
    return value + struct.pack(">i", 45_000) + b"\0\0\0\x02\x01\x02" + b"\0\0\0\x01\x03"


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_a_generation_can_be_read(version: int) -> None:
    member = RecordedMember(
        MEMBER.member_id,
        MEMBER.group_instance_id if version >= 3 else None,
        MEMBER.client_id,
        MEMBER.client_host,
        # Version 0 has the session timeout for both.
        300_000 if version >= 1 else 45_000,
        MEMBER.session_timeout_ms,
        MEMBER.subscription,
        MEMBER.assignment,
    )
    expected = GenerationRecorded(
        GROUP, "consumer", 5, "range", MemberId("m-1"), 1_000 if version >= 2 else -1, (member,)
    )
    assert decode(GENERATION_KEY, generation_value(version)) == expected


def test_the_flexible_version_of_a_generation_can_be_read() -> None:
    value = (
        b"\x00\x04\x09consumer\x00\x00\x00\x05\x06range\x04m-1" + struct.pack(">q", 1_000) + b"\x02"
        b"\x04m-1\x05inst\x04cli\x03/h" + struct.pack(">ii", 300_000, 45_000)
    )
    value += b"\x03\x01\x02" + b"\x02\x03" + b"\x00" + b"\x01\x09\x02ab"
    assert decode(GENERATION_KEY, value) == GENERATION


@pytest.mark.parametrize("version", [3, 5, 21])
def test_keys_of_other_kinds_are_none_of_ours(version: int) -> None:
    assert decode(struct.pack(">h", version) + b"\x00\x01g", b"anything") is None


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
group_ids = names.map(GroupId)
member_ids = names.map(MemberId)
members = st.builds(
    RecordedMember,
    member_ids,
    st.none() | names,
    names,
    names,
    int32,
    int32,
    st.binary(max_size=30),
    st.binary(max_size=30),
)
records: st.SearchStrategy[GroupRecord] = st.one_of(
    st.builds(OffsetCommitted, group_ids, names, int32, int64, int32, names, int64),
    st.builds(OffsetForgotten, group_ids, names, int32),
    st.builds(
        GenerationRecorded,
        group_ids,
        names,
        int32,
        st.none() | names,
        st.none() | member_ids,
        int64,
        st.lists(members, max_size=3).map(tuple),
    ),
    st.builds(GroupForgotten, group_ids),
)


@given(records)
def test_what_is_written_is_read(record: GroupRecord) -> None:
    assert decode(*encode(record)) == record


@given(records, st.data())
def test_a_record_cut_short_is_called_damage(record: GroupRecord, draw: st.DataObject) -> None:
    key, value = encode(record)
    if value is None:
        key = key[: draw.draw(st.integers(0, len(key) - 1))]
    else:
        value = value[: draw.draw(st.integers(0, len(value) - 1))]
    with pytest.raises(CorruptJournal):
        decode(key, value)


@given(st.integers(0, 4), st.binary(max_size=60))
def test_random_values_are_read_or_called_damage(version: int, tail: bytes) -> None:
    for key in (OFFSET_KEY, GENERATION_KEY):
        with contextlib.suppress(CorruptJournal):
            decode(key, struct.pack(">h", version) + tail)


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("console-consumer-12345", None),
        ("polygenelubricants", -(2**31)),
        ("😀", 0xD83D * 31 + 0xDE00),
    ],
)
def test_a_group_lies_in_the_partition_of_javas_hash(group_id: str, java_hash: int | None) -> None:
    if java_hash is None:
        java_hash = 0
        for character in group_id:
            java_hash = (java_hash * 31 + ord(character) + 2**31) % 2**32 - 2**31
    magnitude = 0 if java_hash == -(2**31) else abs(java_hash)
    for count in (1, 3, 50):
        assert partition_for(GroupId(group_id), count) == magnitude % count

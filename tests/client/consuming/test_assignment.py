"""Assignments as kafka-python writes them, and as nobody should."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from semel.client.consuming.subscription import decode_assignment
from semel.errors import ProtocolError
from semel.types import TopicPartition


def written(assignment: dict[str, list[int]]) -> bytes:
    topics = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in assignment.items()
    ]
    return bytes(
        ConsumerProtocolAssignment(
            assigned_partitions=topics, user_data=b"more", version=0
        ).encode()
    )


@given(st.dictionaries(st.text(max_size=10), st.lists(st.integers(0, 99), max_size=5)))
def test_an_assignment_is_read_as_written(assignment: dict[str, list[int]]) -> None:
    expected = {TopicPartition(t, p) for t, numbers in assignment.items() for p in numbers}
    assert decode_assignment(written(assignment)) == expected


def test_a_member_without_assignment_has_no_partitions() -> None:
    assert decode_assignment(b"") == frozenset()


@given(st.binary(max_size=60))
def test_junk_is_refused_or_read_but_never_crashes(junk: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode_assignment(junk)


def test_a_cut_assignment_is_refused() -> None:
    whole = written({"topic": [1, 2, 3]})
    for size in range(1, len(whole) - 8):
        with pytest.raises(ProtocolError):
            decode_assignment(whole[:size])

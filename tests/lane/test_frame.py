"""A frame's payload: its head, in the layout that is written and in the one before; its batches."""

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from semel.errors import CorruptJournal, NewerFormat
from semel.lane import facts, frame
from semel.records.batch import admit
from semel.types import Offset, Position, Term
from semel.world import Moment

AT = Position(4_096)


def test_both_layouts_tell_when_the_frame_was_made_and_where_its_entries_begin() -> None:
    fact = facts.ProducerIdTaken(5)
    stored = facts.encode(fact)
    entries = frame.pack_entry(frame.FACT, 0, len(stored)) + stored
    newer = frame.pack_head(frame.LAYOUT, 5_000, 6_000) + entries
    older = struct.pack(">q", 5_000) + entries
    for payload, wall_ms in ((newer, 6_000), (older, 5_000)):
        moment, start = frame.read_head(memoryview(payload), AT)
        assert (moment.now_ms, moment.wall_ms) == (5_000, wall_ms)
        assert payload[start:] == entries
        decoded = frame.decode(memoryview(payload), AT)
        assert (decoded.at.now_ms, decoded.at.wall_ms) == (5_000, wall_ms)
        assert decoded.entries == [fact]
        assert decoded.size == len(payload)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"", "cut at 0 bytes"),
        (bytes(7), "cut at 7 bytes"),
        (bytes([frame.LAYOUT]) + bytes(15), "cut at 16 bytes"),
        (bytes([frame.LAYOUT + 1]) + bytes(40), f"layout {frame.LAYOUT + 1}"),
    ],
)
def test_a_head_that_cannot_be_read_is_refused_with_its_place(payload: bytes, words: str) -> None:
    with pytest.raises((CorruptJournal, NewerFormat), match=f"byte {AT}.*{words}"):
        frame.read_head(memoryview(payload), AT)


@given(st.integers(0, 2**62), st.integers(0, 2**31 - 1), st.sampled_from([5, 1_000]))
def test_a_stored_batch_is_read_by_a_real_client_at_its_offset(
    base_offset: int, leader_epoch: int, value_size: int
) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for index in range(3):
        builder.append(index, 1_700_000_000_000 + index, b"key", b"v" * value_size, [])
    batch = memoryview(bytes(builder.build()))
    made = frame.Frame(Moment(5_000, 6_000))
    made.add_batch(7, Offset(base_offset), Term(leader_epoch), admit(batch), 0, batch)
    payload = b"".join(made.encode())
    (entry,) = made.batches
    assert len(payload) == made.size == entry.at + len(batch)
    oracle = DefaultRecordBatch(payload[entry.at :])
    assert oracle.validate_crc()
    assert oracle.leader_epoch == leader_epoch
    assert [record.offset for record in oracle] == [base_offset + i for i in range(3)]

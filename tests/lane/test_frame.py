"""The head of a frame's payload, in the layout that is written and in the one before."""

import struct

import pytest

from semel.errors import CorruptJournal, NewerFormat
from semel.lane import facts, frame
from semel.types import Position

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

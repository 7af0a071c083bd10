"""Frames come out as they went in, and memory that is still read is never received into."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.connecting.connection import FrameReceiver
from semel.errors import ProtocolError
from semel.types import Buffer

MEGABYTE = 1024 * 1024


def received(receiver: FrameReceiver, stream: bytes, step: int) -> Iterator[Buffer]:
    position = 0
    while position < len(stream):
        room = receiver.room()
        size = min(step, len(room), len(stream) - position)
        room[:size] = stream[position : position + size]
        position += size
        yield from receiver.advance(size)


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


@given(
    st.lists(st.integers(0, 200_000), max_size=8), st.sampled_from([1000, 4096, 65_536, 1_000_000])
)
def test_frames_are_whole_and_in_order(sizes: list[int], step: int) -> None:
    contents = [bytes([number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(framed, contents))
    receiver = FrameReceiver(MEGABYTE)
    assert [bytes(frame) for frame in received(receiver, stream, step)] == contents


def test_a_frame_that_is_held_keeps_its_bytes() -> None:
    receiver = FrameReceiver(8 * MEGABYTE)
    contents = [bytes([number]) * (2 * MEGABYTE + number) for number in range(5)]
    held = list(received(receiver, b"".join(map(framed, contents)), 100_000))
    assert [bytes(frame) for frame in held] == contents


def test_a_part_of_a_frame_keeps_all_of_it() -> None:
    receiver = FrameReceiver(8 * MEGABYTE)
    parts = []
    for number in range(5):
        content = framed(bytes([number]) * (2 * MEGABYTE))
        parts += [memoryview(frame)[5:8] for frame in received(receiver, content, 100_000)]
    assert [bytes(part) for part in parts] == [bytes([number]) * 3 for number in range(5)]


def test_a_frame_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ProtocolError, match="1025 bytes"):
        list(received(FrameReceiver(1024), (1025).to_bytes(4, "big"), 4))

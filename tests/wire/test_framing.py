"""Frames survive any way of cutting the stream, and sizes that lie are refused at once."""

from random import Random
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import ProtocolError
from semel.wire.framing import FrameCutter, frame

FRAME_SIZE_MAX = 300


@given(
    frames=st.lists(st.binary(max_size=FRAME_SIZE_MAX), max_size=8),
    tail=st.binary(max_size=3),
    seed=st.integers(0, 2**32),
    piece_size_max=st.integers(1, 700),
)
def test_frames_come_out_whole_whatever_the_pieces(
    frames: list[bytes], tail: bytes, seed: int, piece_size_max: int
) -> None:
    stream = b"".join(pack(">i", len(item)) + item for item in frames) + tail
    random = Random(seed)
    cutter = FrameCutter(FRAME_SIZE_MAX)
    cut: list[bytes] = []
    position = 0
    while position < len(stream):
        size = random.randint(1, piece_size_max)
        cut += cutter.feed(memoryview(stream)[position : position + size])
        position += size
        assert len(cutter._held) <= FRAME_SIZE_MAX + 4
    assert cut == frames
    assert len(cutter._held) == len(tail)


@pytest.mark.parametrize("size", [-1, -(2**31), FRAME_SIZE_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("piece_size", [1, 3, 4, 100])
def test_a_size_out_of_bounds_ends_the_stream_before_anything_is_held(
    size: int, piece_size: int
) -> None:
    cutter = FrameCutter(FRAME_SIZE_MAX)
    stream = pack(">i", 2) + b"ok" + pack(">i", size) + bytes(100)
    cut: list[bytes] = []

    def feed_all() -> None:
        for position in range(0, len(stream), piece_size):
            for item in cutter.feed(stream[position : position + piece_size]):
                cut.append(item)  # noqa: PERF402 - frames before the refusal are kept

    with pytest.raises(ProtocolError, match=str(size)):
        feed_all()
    assert cut == [b"ok"]
    assert len(cutter._held) == 0
    with pytest.raises(ProtocolError, match=str(size)):
        list(cutter.feed(pack(">i", 2) + b"no"))


@given(header=st.binary(max_size=20), body=st.lists(st.binary(max_size=100), max_size=4))
def test_what_is_framed_is_cut_again(header: bytes, body: list[bytes]) -> None:
    sent = b"".join(frame(header, [*body]))
    assert list(FrameCutter(1000).feed(sent)) == [header + b"".join(body)]

"""Requests come out as they went in, however the bytes are cut; what lies is refused at once."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.inbox import SCRATCH_SIZE, Inbox
from semel.errors import ProtocolError

SIZE_MAX = 1_000


def receive(inbox: Inbox, stream: bytes, cuts: list[int]) -> list[bytes]:
    """Hand over the stream in pieces of these sizes, again and again, as a socket would."""
    found: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        buffer = inbox.buffer()
        assert len(buffer) > 0
        size = min(cuts[turn % len(cuts)], len(buffer), len(stream) - position)
        buffer[:size] = stream[position : position + size]
        found += [bytes(request) for request in inbox.received(size)]
        position += size
        turn += 1
    return found


@given(
    st.lists(st.binary(min_size=1, max_size=SIZE_MAX), max_size=20),
    st.lists(st.integers(1, 700), min_size=1, max_size=10),
)
def test_requests_are_cut_as_they_were_sent(requests: list[bytes], cuts: list[int]) -> None:
    inbox = Inbox(memoryview(bytearray(256)), SIZE_MAX)
    stream = b"".join(struct.pack(">i", len(request)) + request for request in requests)
    assert receive(inbox, stream, cuts) == requests
    assert inbox.held == 0


def test_requests_outlive_the_buffer_they_came_in() -> None:
    scratch = memoryview(bytearray(64))
    inbox = Inbox(scratch, SIZE_MAX)
    frame = struct.pack(">i", 3) + b"abc"
    scratch[: len(frame)] = frame
    (request,) = inbox.received(len(frame))
    scratch[:] = bytes(64)
    assert bytes(request) == b"abc"


@pytest.mark.parametrize("size", [0, -1, -(2**31), SIZE_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("cut", [1, 2, 4, 5, 100])
def test_a_size_that_cannot_be_is_refused_as_soon_as_it_is_known(size: int, cut: int) -> None:
    inbox = Inbox(memoryview(bytearray(256)), SIZE_MAX)
    with pytest.raises(ProtocolError, match=str(size)):
        receive(inbox, struct.pack(">i", size) + b"x" * 10, [cut])


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "the client speaks TLS, and this listener does not"),
        (
            b"GET /metrics HTTP/1.1\r\n",
            "the client speaks HTTP, and this listener Kafka's protocol",
        ),
    ],
)
def test_who_is_at_the_wrong_port_is_told_of(stream: bytes, sentence: str) -> None:
    inbox = Inbox(memoryview(bytearray(256)), SIZE_MAX)
    with pytest.raises(ProtocolError, match=sentence):
        receive(inbox, stream, [len(stream)])


def test_a_long_request_takes_memory_as_it_comes_and_not_as_it_claims() -> None:
    inbox = Inbox(memoryview(bytearray(256)), 100 * 2**20)
    receive(inbox, struct.pack(">i", 90 * 2**20) + bytes(1_000), [100])
    assert inbox.held <= 2 * SCRATCH_SIZE

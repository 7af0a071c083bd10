"""The newest frames in memory: what is read of them, what is let go, what they keep alive."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from semel.journal.tail import FRAME_OVERHEAD, Tail


@given(
    sizes=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=200),
    bytes_max=st.integers(0, 6 * FRAME_OVERHEAD),
    data=st.data(),
)
def test_what_is_held_is_what_was_appended(
    sizes: list[list[int]], bytes_max: int, data: st.DataObject
) -> None:
    journal = bytearray()
    tail = Tail(bytes_max, lambda position: None)
    frames: list[tuple[int, int]] = []
    for frame in sizes:
        journal += b"header"
        start = len(journal)
        parts = [bytes([(start + each) % 251]) * size for each, size in enumerate(frame)]
        journal += b"".join(parts)
        frames.append((start, len(journal)))
        tail.add(start, [*parts])
    held_bytes = 0
    is_held = True
    for start, stop in reversed(frames):
        held_bytes += FRAME_OVERHEAD + stop - start
        is_held = is_held and held_bytes <= bytes_max
        first = data.draw(st.integers(start, stop - 1))
        last = data.draw(st.integers(first + 1, stop))
        expected = bytes(journal[first:last]) if is_held else None
        assert tail.read(first, last - first) == expected


def test_a_small_batch_counts_as_the_whole_request_that_it_keeps_alive() -> None:
    tail = Tail(3 * (1000 + FRAME_OVERHEAD), lambda position: None)
    requests = [bytes(1000) for _ in range(4)]
    for number, request in enumerate(requests):
        tail.add(number * 100, [memoryview(request)[10:20]])
    assert [tail.read(number * 100, 10) for number in range(4)] == [None, *[bytes(10)] * 3]


def test_batches_of_one_request_keep_it_alive_once() -> None:
    tail = Tail(1000 + 50 * FRAME_OVERHEAD, lambda position: None)
    request = bytes(1000)
    for number in range(50):
        tail.add(number * 100, [memoryview(request)[number * 10 : number * 10 + 10]])
    assert tail.read(0, 10) == bytes(10)


def test_frames_of_a_few_bytes_take_no_more_memory_than_they_may() -> None:
    bytes_max = 2**20
    tail = Tail(bytes_max, lambda position: None)
    tracemalloc.start()
    try:
        for number in range(50_000):
            tail.add(2**40 + 100 * number, [bytearray(50)])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held <= 1.5 * bytes_max

"""The quick reader of batches finds what the careful one finds, and is as hard to fool."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.consuming.completed_fetch import open_batch
from semel.client.consuming.record import Record, TimestampType
from semel.errors import SemelError
from semel.records.batch import HEADER_SIZE, read, seal, with_log_append_time
from semel.records.compression import Compression
from semel.records.records import Record as StoredRecord
from semel.records.records import decode_batch, encode_batch
from semel.types import TopicPartition

PLACE = TopicPartition("t", 3)

texts = st.one_of(st.none(), st.binary(max_size=5), st.binary(min_size=60, max_size=200))
stored = st.builds(
    StoredRecord,
    texts,
    texts,
    st.integers(0, 2**40),
    st.lists(st.tuples(st.text(max_size=3), texts), max_size=3).map(tuple),
)
batches = st.lists(stored, min_size=1, max_size=80)


def carefully(batch: bytes, start_offset: int = 0) -> list[Record]:
    header = read(batch)
    kind = TimestampType(int(header.is_log_append_time))
    return [
        Record(*PLACE, each.offset, each.timestamp_ms, kind, each.key, each.value, each.headers)
        for each in decode_batch(batch)
        if each.offset >= start_offset
    ]


def outcome(reading: Callable[[], list[Record]]) -> list[Record] | type[SemelError]:
    try:
        return reading()
    except SemelError as error:
        return type(error)


@given(batches, st.sampled_from(list(Compression)), st.integers(0, 100), st.booleans())
def test_both_readers_find_the_same(
    records: list[StoredRecord], compression: Compression, start: int, is_log_time: bool
) -> None:
    batch = encode_batch(records, base_offset=20, compression=compression)
    if is_log_time:
        batch = with_log_append_time(batch, 99)
    found = open_batch(batch, 0, read(batch), PLACE, start)
    assert found == carefully(batch, start)
    assert all(type(record) is Record for record in found)


@pytest.mark.parametrize("size", [0, 63, 64, 8_191, 8_192, 2**20])
def test_varints_of_any_width_are_read(size: int) -> None:
    records = [
        StoredRecord(bytes(size), bytes(size + number % 2), timestamp_ms=(number % 3) * size)
        for number in range(3)
    ]
    batch = encode_batch(records)
    assert open_batch(batch, 0, read(batch), PLACE, 0) == carefully(batch)


def test_a_batch_of_many_records_is_read() -> None:
    batch = encode_batch([StoredRecord(None, b"")] * 9_000)
    assert [each.offset for each in open_batch(batch, 0, read(batch), PLACE, 0)] == [*range(9_000)]


def test_a_size_that_leads_backwards_is_refused() -> None:
    batch = bytearray(encode_batch([StoredRecord(None, None)]))
    batch[HEADER_SIZE] |= 1
    seal(batch)
    with pytest.raises(SemelError):
        open_batch(bytes(batch), 0, read(bytes(batch)), PLACE, 0)


@given(batches, st.data())
def test_a_broken_batch_is_refused_by_both_or_read_alike(
    records: list[StoredRecord], data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records[:5]))
    place = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[place] = data.draw(st.integers(0, 255))
    seal(batch)
    broken = bytes(batch)
    assert outcome(lambda: open_batch(broken, 0, read(broken), PLACE, 0)) == outcome(
        lambda: carefully(broken)
    )


@pytest.mark.parametrize("count", [-1, 0, 4, 2**31 - 1])
def test_a_batch_that_lies_about_its_count_is_refused(count: int) -> None:
    batch = bytearray(encode_batch([StoredRecord(b"k", b"v")] * 3))
    batch[HEADER_SIZE - 4 : HEADER_SIZE] = count.to_bytes(4, "big", signed=True)
    seal(batch)
    with pytest.raises(SemelError):
        open_batch(bytes(batch), 0, read(bytes(batch)), PLACE, 0)

"""The header of a batch: what is admitted, and what is refused."""

import contextlib
import struct
from collections.abc import Callable

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from semel.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    RequestError,
    UnsupportedCompressionType,
)
from semel.records import batch as batches
from semel.records.batch import HEADER_SIZE, admit, read, seal, split

# Where the fields of a batch lie, as Kafka's documentation gives them.
FIELDS = {
    "base_offset": (">q", 0),
    "length": (">i", 8),
    "leader_epoch": (">i", 12),
    "magic": (">b", 16),
    "checksum": (">I", 17),
    "attributes": (">h", 21),
    "last_offset_delta": (">i", 23),
    "base_timestamp_ms": (">q", 27),
    "max_timestamp_ms": (">q", 35),
    "producer_id": (">q", 43),
    "producer_epoch": (">h", 51),
    "base_sequence": (">i", 53),
    "record_count": (">i", 57),
}


def produced(count: int = 3, compression: int = 0, **producer: int) -> bytearray:
    """A batch as aiokafka writes it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=producer.get("producer_id", -1),
        producer_epoch=producer.get("producer_epoch", -1),
        base_sequence=producer.get("base_sequence", -1),
        batch_size=1 << 20,
    )
    for index in range(count):
        builder.append(index, 1_700_000_000_000 + index, b"key", b"value %d" % index, [])
    return bytearray(builder.build())


def changed(field: str, value: int, *, sealed: bool = True) -> bytearray:
    batch = produced()
    layout, position = FIELDS[field]
    if sealed:
        struct.pack_into(layout, batch, position, value)
        seal(batch)
    else:
        struct.pack_into(layout, batch, position, value)
    return batch


@pytest.mark.parametrize("compression", range(5))
def test_a_batch_of_a_real_client_is_admitted_with_its_numbers(compression: int) -> None:
    batch = produced(7, compression, producer_id=5, producer_epoch=2, base_sequence=11)
    header = admit(memoryview(batch))
    oracle = DefaultRecordBatch(bytes(batch))
    assert header.size == len(batch)
    assert header.checksum == oracle.crc
    assert header.compression == compression
    assert (header.record_count, header.last_offset_delta) == (7, 6)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 11)
    assert header.last_sequence == 17
    assert header.max_timestamp_ms == 1_700_000_000_006


REFUSALS: list[tuple[str, int, type[RequestError]]] = [
    ("magic", 1, InvalidRecord),
    ("magic", 3, InvalidRecord),
    ("base_offset", 1, InvalidRecord),
    ("record_count", 0, InvalidRecord),
    ("record_count", -1, InvalidRecord),
    ("record_count", 4, InvalidRecord),
    ("last_offset_delta", 3, InvalidRecord),
    ("last_offset_delta", -1, InvalidRecord),
    ("attributes", 5, UnsupportedCompressionType),
    ("attributes", 7, UnsupportedCompressionType),
    ("attributes", 0x20, InvalidRecord),
    ("attributes", 0x30, InvalidRecord),
    ("attributes", 0x10, InvalidRecord),
    ("attributes", 0x08, InvalidTimestamp),
    ("producer_id", 7, InvalidRecord),
    ("producer_id", -2, InvalidRecord),
    ("max_timestamp_ms", -2, InvalidTimestamp),
]


@pytest.mark.parametrize(("field", "value", "refusal"), REFUSALS)
def test_a_lie_in_a_field_is_refused(field: str, value: int, refusal: type[RequestError]) -> None:
    with pytest.raises(refusal):
        admit(memoryview(changed(field, value)))


def claiming(count: int, record_count: int) -> bytearray:
    """A batch of `count` empty records that says it has another number of them."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for index in range(count):
        builder.append(index, 0, None, None, [])
    batch = bytearray(builder.build())
    for field, value in (("last_offset_delta", record_count - 1), ("record_count", record_count)):
        layout, position = FIELDS[field]
        struct.pack_into(layout, batch, position, value)
    seal(batch)
    return batch


def test_more_records_than_the_bytes_can_hold_are_refused() -> None:
    assert admit(memoryview(claiming(9, 9))).record_count == 9
    for lie in (10, 2**31 - 1):
        with pytest.raises(InvalidRecord):
            admit(memoryview(claiming(9, lie)))


@pytest.mark.parametrize("length", [-1, 0, 48, 49, 1 << 20])
def test_a_wrong_length_is_corrupt(length: int) -> None:
    with pytest.raises(CorruptMessage):
        admit(memoryview(changed("length", length, sealed=False)))


def test_two_batches_at_once_and_none_at_all_are_refused() -> None:
    with pytest.raises(InvalidRecord):
        admit(memoryview(produced() + produced()))
    with pytest.raises(InvalidRecord):
        admit(memoryview(b""))


@given(st.data())
def test_a_cut_batch_is_corrupt(data: st.DataObject) -> None:
    batch = produced()
    size = data.draw(st.integers(1, len(batch) - 1))
    with pytest.raises(CorruptMessage):
        admit(memoryview(batch)[:size])


@given(st.data())
def test_any_changed_bit_behind_the_checksum_is_found(data: st.DataObject) -> None:
    batch = produced()
    position = data.draw(st.integers(17, len(batch) - 1))
    batch[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptMessage):
        admit(memoryview(batch))


@given(st.binary(max_size=200))
def test_random_bytes_get_a_refusal_and_nothing_else(junk: bytes) -> None:
    with pytest.raises(RequestError):
        admit(memoryview(junk))


def test_log_append_time_replaces_the_time_of_every_record() -> None:
    oracle = DefaultRecordBatch(batches.with_log_append_time(produced(), 1_800_000_000_000))
    assert oracle.validate_crc()
    assert oracle.timestamp_type == 1
    assert {record.timestamp for record in oracle} == {1_800_000_000_000}


def test_the_last_sequence_wraps_to_zero() -> None:
    batch = produced(3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert admit(memoryview(batch)).last_sequence == 0


def test_batches_in_a_row_are_split_and_a_cut_one_is_left_out() -> None:
    first, second = produced(1), produced(2, 4)
    whole = bytes(first + second)
    assert [bytes(part) for _, part in split(whole)] == [bytes(first), bytes(second)]
    for size in range(len(first), len(whole)):
        assert [bytes(part) for _, part in split(whole[:size])] == [bytes(first)]


@pytest.mark.parametrize("spoil", [("length", -5), ("length", 10), ("magic", 1)])
def test_split_stops_at_a_batch_that_cannot_be_one(spoil: tuple[str, int]) -> None:
    with pytest.raises(CorruptMessage):
        list(split(changed(*spoil, sealed=False)))


@given(st.data())
def test_reading_names_the_byte_of_a_cut_header(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, 30))
    size = data.draw(st.integers(0, HEADER_SIZE - 1))
    with pytest.raises(CorruptMessage, match=f"byte {position}: header cut at {size}"):
        read(bytes(position + size), position)


READERS: list[Callable[[bytes], object]] = [
    lambda junk: list(split(junk)),
    read,
    lambda junk: batches.with_log_append_time(junk, 0),
]


@pytest.mark.parametrize("reader", READERS)
@given(st.binary(max_size=300))
def test_readers_of_random_bytes_raise_nothing_but_corrupt(
    reader: Callable[[bytes], object], junk: bytes
) -> None:
    with contextlib.suppress(CorruptMessage):
        reader(junk)

"""What is told of records without reading them, against what reading them says."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.test_records import any_compression, one_record, some_records
from semel.errors import CorruptMessage
from semel.records.batch import HEADER_SIZE, read, seal
from semel.records.compression import Compression
from semel.records.records import Record, encode_batch
from semel.records.scanning import check_end, has_keyless_record, plain_records, scan_record

COUNT = 57
"""Where the header counts the records."""


@given(some_records, any_compression, st.integers(0, 2**40))
def test_a_record_is_scanned_as_it_was_written(
    records: list[Record], compression: Compression, base_offset: int
) -> None:
    batch = encode_batch(records, base_offset=base_offset, compression=compression)
    header = read(batch)
    plain = plain_records(header, batch)
    position = 0
    for number, record in enumerate(records):
        position, delta_ms, delta, key_from, key_until, value_size = scan_record(
            plain, position, 0, len(records)
        )
        assert delta == number
        assert header.base_timestamp_ms + delta_ms == record.timestamp_ms
        key = None if key_until < key_from else plain[key_from:key_until]
        assert key == record.key
        assert value_size == (-1 if record.value is None else len(record.value))
    check_end(plain, position)


@given(some_records, any_compression)
def test_a_record_without_key_is_found_wherever_it_stands(
    records: list[Record], compression: Compression
) -> None:
    batch = encode_batch(records, compression=compression)
    is_missing = any(record.key is None for record in records)
    assert has_keyless_record(read(batch), batch) == is_missing


@given(one_record, st.data())
def test_a_record_with_a_broken_byte_is_refused_or_stays_within_its_bytes(
    record: Record, data: st.DataObject
) -> None:
    plain = bytearray(encode_batch([record])[HEADER_SIZE:])
    plain[data.draw(st.integers(0, min(len(plain), 20) - 1))] = data.draw(st.integers(0, 255))
    try:
        end, _, delta, key_from, key_until, value_size = scan_record(bytes(plain), 0, 0, 0)
    except CorruptMessage:
        return
    assert delta == 0
    assert 0 < key_from <= max(key_until, key_from) < end <= len(plain)
    assert max(value_size, 0) < end


@pytest.mark.parametrize("count", [1, 3])
def test_records_that_the_header_does_not_count_are_refused(count: int) -> None:
    batch = bytearray(encode_batch([Record(b"k", b"v", 1)] * 2))
    struct.pack_into(">i", batch, COUNT, count)
    seal(batch)
    with pytest.raises(CorruptMessage):
        has_keyless_record(read(batch), batch)


def test_offsets_that_do_not_count_up_are_refused() -> None:
    first = encode_batch([Record(b"k", b"v", 1)])
    twice = bytearray(first + first[HEADER_SIZE:])
    struct.pack_into(">i", twice, COUNT, 2)
    seal(twice)
    with pytest.raises(CorruptMessage, match="offset delta 0, not between 1 and 1"):
        has_keyless_record(read(twice), twice)

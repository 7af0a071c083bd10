"""Markers, byte for byte and as other clients see them."""

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from semel.errors import CorruptMessage
from semel.records.batch import read
from semel.records.control import Marker, MarkerType, decode_marker, encode_marker
from semel.records.records import Record, encode_batch
from support.compacted_log import emptied

markers = st.builds(
    Marker,
    type=st.sampled_from(MarkerType),
    offset=st.integers(0, 2**40),
    producer_id=st.integers(0, 2**60),
    producer_epoch=st.integers(0, 2**15 - 1),
    coordinator_epoch=st.integers(0, 2**31 - 1),
    timestamp_ms=st.integers(0, 2**50),
)


@given(markers)
def test_a_marker_is_seen_by_other_clients_and_read_back(marker: Marker) -> None:
    batch = encode_marker(marker, leader_epoch=4)
    for reader in (AiokafkaBatch, KafkaPythonBatch):
        oracle = reader(batch)
        assert oracle.validate_crc()
        assert oracle.is_control_batch
        assert oracle.is_transactional
        assert oracle.base_sequence == -1
        assert oracle.producer_id == marker.producer_id
        (record,) = oracle
        assert record.offset == marker.offset
    (record,) = AiokafkaBatch(batch)
    expected = COMMIT_MARKER if marker.type == MarkerType.COMMIT else ABORT_MARKER
    assert ControlRecord.parse(record.key) == expected
    assert decode_marker(batch) == marker


def test_a_marker_has_the_fields_that_kafka_writes() -> None:
    marker = Marker(MarkerType.COMMIT, 10, 7, 1, 5, 1_700_000_000_000)
    batch = encode_marker(marker, leader_epoch=0)
    # Record: size 16, attributes, two deltas, key of 4, value of 6, no headers.
    assert batch[61:] == bytes.fromhex("20 00 00 00 08 0000 0001 0c 0000 00000005 00")
    header = read(batch)
    assert (header.attributes, header.record_count, header.base_sequence) == (0x30, 1, -1)


def test_a_control_type_that_is_no_end_of_a_transaction_is_none() -> None:
    batch = encode_batch([Record(b"\x00\x00\x00\x02", b"", 0)], is_control=True)
    assert decode_marker(batch) is None


def test_a_control_batch_that_compaction_has_emptied_is_none() -> None:
    marker = Marker(MarkerType.COMMIT, 10, 7, 1, 5, 1_700_000_000_000)
    batch = emptied(encode_marker(marker, leader_epoch=0))
    assert KafkaPythonBatch(batch).validate_crc()
    assert (read(batch).last_offset, decode_marker(batch)) == (10, None)


@pytest.mark.parametrize(
    "record", [Record(None, None, 0), Record(b"\x00", None, 0), Record(b"\x00\x00\x00\x01", b"", 0)]
)
def test_a_cut_marker_is_corrupt(record: Record) -> None:
    with pytest.raises(CorruptMessage):
        decode_marker(encode_batch([record], is_control=True))


def test_an_ordinary_batch_is_no_marker() -> None:
    with pytest.raises(CorruptMessage):
        decode_marker(encode_batch([Record(b"k", b"v", 0)]))

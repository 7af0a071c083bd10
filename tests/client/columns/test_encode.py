"""Columns into batches, as three readers understand them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch

from client.columns.records_columns import rows_of, some_records
from semel.client.columns.encode import encode, rows_from
from semel.client.columns.headers import HEADERS
from semel.records.batch import admit, read, with_producer
from semel.records.compression import Compression
from semel.records.records import Record, decode_batch

any_compression = st.sampled_from(Compression)


@given(some_records, any_compression, st.sampled_from([200, 5_000, 900_000]), st.data())
def test_rows_reach_their_partitions_in_order_and_whole(
    records: list[Record], compression: Compression, size_max: int, data: st.DataObject
) -> None:
    partitions = data.draw(
        st.lists(st.integers(0, 3), min_size=len(records), max_size=len(records))
    )
    found: dict[int, list[Record]] = {}
    for batch in encode(
        rows_of(records),
        np.array(partitions, np.int32),
        compression=compression,
        batch_size_max=size_max,
    ):
        header = admit(memoryview(batch.content))
        decoded = decode_batch(batch.content)
        assert len(decoded) == batch.record_count == header.record_count
        assert header.max_timestamp_ms == max(record.timestamp_ms for record in decoded)
        assert [record.offset for record in decoded] == list(range(len(decoded)))
        assert [r.value for r in KafkaPythonBatch(batch.content)] == [r.value for r in decoded]
        if compression == Compression.NONE and len(decoded) > 1:
            assert len(batch.content) <= size_max
        found.setdefault(batch.partition, []).extend(r._replace(offset=-1) for r in decoded)
    expected: dict[int, list[Record]] = {}
    for partition, record in zip(partitions, records, strict=True):
        expected.setdefault(partition, []).append(record)
    assert found == expected


def test_no_rows_are_no_batches() -> None:
    assert list(encode(rows_of([]), np.array([], np.int32))) == []


def test_rows_that_are_a_slice_of_columns_are_encoded_alone() -> None:
    headers = pa.array([[("a", b"1")], None, [], [("b", None), ("c", b"")]], HEADERS)
    rows = rows_from(
        pa.array(["w", "x", "y", "z"])[1:],
        pa.array([b"0", b"1", None, b"3"])[1:],
        pa.array([1, 2, 3, 4], pa.timestamp("s"))[1:],
        headers[1:],
    )
    (batch,) = encode(rows, np.zeros(3, np.int32))
    assert decode_batch(batch.content) == [
        Record(b"x", b"1", 2000, (), 0),
        Record(b"y", None, 3000, (), 1),
        Record(b"z", b"3", 4000, (("b", None), ("c", b"")), 2),
    ]


def test_times_that_are_missing_are_now() -> None:
    rows = rows_from(None, pa.array([b"a", b"b"]), pa.array([5, None], pa.int64()), now_ms=9)
    assert rows.timestamps_ms.tolist() == [5, 9]
    assert rows.keys.null_count == 2


def test_a_header_without_a_name_is_refused() -> None:
    rows = rows_from(None, pa.array([b"a"]), None, pa.array([[(None, b"1")]], HEADERS))
    with pytest.raises(ValueError, match="no name"):
        list(encode(rows, np.zeros(1, np.int32)))


@given(
    some_records,
    any_compression,
    st.integers(0, 2**62),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)
def test_a_stamped_batch_differs_in_its_producer_only(
    records: list[Record],
    compression: Compression,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    is_transactional: bool,
) -> None:
    zeros = np.zeros(len(records), np.int32)
    for batch in encode(rows_of(records), zeros, compression=compression):
        stamped = with_producer(
            batch.content, producer_id, producer_epoch, sequence, is_transactional=is_transactional
        )
        header = admit(memoryview(stamped))
        assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
        assert (header.base_sequence, header.is_transactional) == (sequence, is_transactional)
        assert header.compression == read(batch.content).compression
        assert decode_batch(stamped) == decode_batch(batch.content)

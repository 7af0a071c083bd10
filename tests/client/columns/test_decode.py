"""Batches into columns, against the reader of single records and that of another client."""

from collections.abc import Sequence

import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from client.columns.records_columns import one_record, records_of, some_records
from semel.client.columns.decode import decode
from semel.client.columns.schema import COLUMNS, FIELDS, schema_of
from semel.errors import ConfigError, RequestError
from semel.records.batch import HEADER_SIZE, seal, with_log_append_time
from semel.records.compression import Compression
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import TopicPartition

PLACE = TopicPartition("orders", 3)
any_compression = st.sampled_from(Compression)


def chained(
    parts: Sequence[tuple[Sequence[Record], Compression]], gap: int = 0
) -> tuple[bytes, list[Record]]:
    """Batches one behind the other, and all their records with offsets."""
    stream, records, offset = b"", [], 0
    for part, compression in parts:
        stream += encode_batch(part, base_offset=offset, compression=compression)
        records += [r._replace(offset=offset + i) for i, r in enumerate(part)]
        offset += len(part) + gap
    return stream, records


@given(
    st.lists(st.tuples(some_records, any_compression), min_size=1, max_size=4), st.integers(0, 3)
)
def test_columns_say_what_the_records_do(
    parts: list[tuple[list[Record], Compression]], gap: int
) -> None:
    stream, records = chained(parts, gap)
    assert records_of(decode(stream, PLACE, columns=list(FIELDS))) == records


@given(some_records, any_compression)
def test_batches_of_another_client_are_read(
    records: list[Record], compression: Compression
) -> None:
    builder = KafkaPythonBuilder(2, compression, True, -1, -1, -1, 1 << 24)
    for number, record in enumerate(records):
        builder.append(number, record.timestamp_ms, record.key, record.value, list(record.headers))
    stream = bytes(builder.build())
    expected = [record._replace(offset=number) for number, record in enumerate(records)]
    assert records_of(decode(stream, PLACE, columns=list(FIELDS))) == expected
    assert [r.value for r in AiokafkaBatch(bytearray(stream))] == [r.value for r in expected]


@given(st.lists(st.tuples(some_records, any_compression), min_size=1, max_size=3), st.data())
def test_only_the_offsets_asked_for_are_given(
    parts: list[tuple[list[Record], Compression]], data: st.DataObject
) -> None:
    stream, records = chained(parts)
    start = data.draw(st.integers(0, len(records)))
    end = data.draw(st.integers(0, len(records) + 1))
    decoded = decode(stream, PLACE, start_offset=start, end_offset=end, columns=list(FIELDS))
    assert records_of(decoded) == records[start:end]


@given(st.permutations(list(FIELDS)), st.integers(0, len(FIELDS)))
def test_each_choice_of_columns_has_its_types(names: list[str], count: int) -> None:
    chosen = names[:count]
    decoded = decode(encode_batch([Record(b"k", b"v", 5)]), PLACE, columns=chosen)
    assert decoded.schema == schema_of(chosen)
    assert not chosen or decoded.num_rows == 1


def test_place_and_both_kinds_of_time_are_columns() -> None:
    created = encode_batch([Record(None, b"a", 7)])
    appended = with_log_append_time(encode_batch([Record(None, b"b", 7)], base_offset=1), 9)
    rows = decode(created + appended, PLACE).to_pylist()
    assert [(row["topic"], row["partition"]) for row in rows] == [PLACE, PLACE]
    assert [row["timestampType"] for row in rows] == [0, 1]
    assert [row["timestamp"].microsecond for row in rows] == [7_000, 9_000]


def test_a_batch_that_compaction_emptied_and_markers_give_no_rows() -> None:
    emptied = bytearray(encode_batch([Record(None, b"gone", 0)])[:HEADER_SIZE])
    emptied[57:61] = (0).to_bytes(4, "big")
    seal(emptied)
    marker = encode_marker(Marker(MarkerType.COMMIT, 1, 7, 0, 0, 0), leader_epoch=0)
    assert decode(bytes(emptied) + marker, PLACE).num_rows == 0
    assert decode(b"", PLACE).schema == schema_of(COLUMNS)


def test_a_record_of_megabytes_stands_among_small_ones() -> None:
    records = [
        Record(b"k", size * b"x", 0, (("h", b"y" * size),)) for size in (1, 5_000_000, 70_000, 3)
    ]
    stream, expected = chained([(records, Compression.NONE), (records, Compression.ZSTD)])
    assert records_of(decode(stream, PLACE, columns=list(FIELDS))) == expected


def test_records_with_many_headers_are_read_in_order() -> None:
    many = tuple((f"name-{i}", None if i % 3 else b"%d" % i) for i in range(100))
    records = [Record(None, None, 0, many[:count]) for count in (0, 1, 100, 33, 32, 31)]
    stream, expected = chained([(records, Compression.NONE)])
    assert records_of(decode(stream, PLACE, columns=list(FIELDS))) == expected


def test_a_time_beyond_microseconds_is_the_last_one() -> None:
    stream = encode_batch([Record(None, b"", 2**62), Record(None, b"", 0)])
    times = decode(stream, PLACE).column("timestamp").cast("int64").to_numpy()
    assert np.array_equal(times, [(2**63 - 1) // 1000 * 1000, 0])


def test_a_batch_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    whole = encode_batch([Record(None, b"a", 0)])
    cut = encode_batch([Record(None, b"b", 0)], base_offset=1)[:-1]
    assert decode(whole + cut, PLACE).column("value").to_pylist() == [b"a"]


def test_the_last_record_is_found_behind_one_with_headers() -> None:
    records = [
        Record(None, b"\x01", 0),
        Record(None, None, 0, headers=(("0", None),)),
        Record(None, None, 0),
    ]
    batch = bytearray(encode_batch(records))
    batch[HEADER_SIZE + 1] = 1  # Attributes, which say nothing; but no longer alike.
    seal(batch)
    found = records_of(decode(bytes(batch), PLACE, columns=list(FIELDS)))
    assert found == decode_batch(bytes(batch))


@settings(max_examples=200)
@given(st.lists(one_record, min_size=1, max_size=30), st.data())
def test_damage_is_refused_as_the_reader_of_records_refuses_it(
    records: list[Record], data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records))
    position = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    seal(batch)
    stream = bytes(batch)
    try:
        expected = decode_batch(stream)
    except RequestError:
        with pytest.raises(RequestError):
            decode(stream, PLACE, columns=list(FIELDS))
    else:
        if all(abs(record.timestamp_ms) < 2**47 for record in expected):
            assert records_of(decode(stream, PLACE, columns=list(FIELDS))) == expected


def test_a_wrong_checksum_is_refused() -> None:
    batch = bytearray(encode_batch([Record(None, b"value", 0)]))
    batch[-2] ^= 1
    with pytest.raises(RequestError, match="checksum"):
        decode(bytes(batch), PLACE)


def test_a_column_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match="no column 'valu'"):
        decode(b"", PLACE, columns=["valu"])

"""Records in a batch, against the readers and writers of two other clients."""

from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from semel.errors import RequestError
from semel.records.batch import HEADER_SIZE, read, seal, sealed
from semel.records.compression import Compression
from semel.records.records import Record, RecordTimes, decode_batch, encode_batch, unpack

optional_bytes = st.none() | st.binary(max_size=300)
one_record = st.builds(
    Record,
    key=optional_bytes,
    value=optional_bytes,
    timestamp_ms=st.integers(0, 2**50),
    headers=st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=3).map(tuple),
)
some_records = st.lists(one_record, min_size=1, max_size=20)
any_compression = st.sampled_from(Compression)


def numbered(records: Sequence[Record], base_offset: int) -> list[Record]:
    return [record._replace(offset=base_offset + i) for i, record in enumerate(records)]


def read_by(reader: type, batch: bytes) -> list[Record]:
    oracle = reader(batch)
    assert oracle.validate_crc()
    return [
        Record(r.key, r.value, r.timestamp, tuple((k, v) for k, v in r.headers), r.offset)
        for r in oracle
    ]


@given(some_records, any_compression, st.integers(0, 2**40))
def test_a_batch_is_read_by_other_clients_and_by_us_as_it_was_written(
    records: list[Record], compression: Compression, base_offset: int
) -> None:
    batch = encode_batch(records, base_offset=base_offset, compression=compression)
    expected = numbered(records, base_offset)
    assert read_by(KafkaPythonBatch, batch) == expected
    assert read_by(AiokafkaBatch, batch) == expected
    assert decode_batch(batch) == expected


@pytest.mark.parametrize("builder_type", [KafkaPythonBuilder, AiokafkaBuilder])
@given(some_records, any_compression)
def test_a_batch_of_another_client_is_read_as_it_was_written(
    builder_type: type, records: list[Record], compression: Compression
) -> None:
    builder = builder_type(
        magic=2,
        compression_type=int(compression),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 24,
    )
    for index, record in enumerate(records):
        builder.append(index, record.timestamp_ms, record.key, record.value, list(record.headers))
    assert decode_batch(bytes(builder.build())) == numbered(records, 0)


def test_plain_batches_are_the_same_bytes_as_kafka_python_writes() -> None:
    builder = KafkaPythonBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        batch_size=1 << 20,
    )
    records = [Record(b"k%d" % i, None, 1000 + i, (("name", b"x"),)) for i in range(100)]
    for index, record in enumerate(records):
        builder.append(index, record.timestamp_ms, record.key, record.value, list(record.headers))
    ours = encode_batch(
        records,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        is_transactional=True,
        leader_epoch=int.from_bytes(builder.build()[12:16], "big", signed=True),
    )
    assert ours == bytes(builder.build())


@given(some_records, st.data())
@settings(max_examples=300)
def test_a_broken_byte_under_a_right_checksum_raises_a_refusal_or_gives_records(
    records: list[Record], data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records, compression=data.draw(any_compression)))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(HEADER_SIZE - 4, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    seal(batch)
    try:
        decoded = decode_batch(batch, output_size_max=1 << 20)
    except RequestError:
        return
    assert sum(len(record.value or b"") for record in decoded) <= 1 << 20


@given(some_records, any_compression, st.data())
def test_a_batch_cut_under_a_right_checksum_raises_a_refusal(
    records: list[Record], compression: Compression, data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records, compression=compression))
    del batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1)) :]
    seal(batch)
    with pytest.raises(RequestError):
        decode_batch(batch)


def test_times_are_read_a_few_at_a_time_without_what_they_are_the_times_of() -> None:
    many = tuple(("h", None) for _ in range(100))
    records = [Record(b"k", b"v" * at, 5 * at, many if at == 3 else ()) for at in range(7)]
    times = RecordTimes(*unpack(encode_batch(records, base_offset=20)))
    found = [times.few(3) for _ in range(4)]
    assert [len(each) for each in found] == [3, 3, 1, 0]
    assert [each for few in found for each in few] == [(5 * at, 20 + at) for at in range(7)]


def test_bytes_behind_the_last_record_are_refused() -> None:
    batch = bytearray(encode_batch([Record(b"k", b"v", 1)])) + b"\x00"
    seal(batch)
    with pytest.raises(RequestError, match="behind its last record"):
        decode_batch(batch)


def test_a_count_beyond_the_bytes_is_refused_before_the_first_record() -> None:
    batch = bytearray(encode_batch([Record(b"k", b"v", 1)]))
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    seal(batch)
    with pytest.raises(RequestError, match="2147483647 records"):
        decode_batch(batch)


@pytest.mark.parametrize("compression", Compression)
def test_a_batch_that_was_emptied_has_no_records_whatever_its_codec(
    compression: Compression,
) -> None:
    header = read(encode_batch([Record(b"k", b"v", 1)], compression=compression))
    content = sealed(header.replaced(record_count=0), b"")
    assert decode_batch(content) == []
    assert read(content).compression == compression

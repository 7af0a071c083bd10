"""Batches as they are filled, judged by a decoder that was not written for them."""

from hypothesis import given
from hypothesis import strategies as st

from semel.client.producing.batch import ProducerBatch
from semel.records.batch import read_header
from semel.records.compression import Compression
from semel.records.records import decode_batch
from semel.types import ProducerIdAndEpoch, TopicPartition

contents = st.none() | st.binary(max_size=300) | st.binary(min_size=4_090, max_size=4_100)
records = st.tuples(
    contents,
    contents,
    st.integers(-1, 2**40),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
)


@given(
    st.lists(records, min_size=1, max_size=20),
    st.sampled_from(Compression),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_a_batch_is_what_was_put_into_it(
    sent: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
    compression: Compression,
    position: int,
    is_transactional: bool,
) -> None:
    batch = ProducerBatch(TopicPartition("t", 0), sent[0][2])
    for number, (key, value, timestamp_ms, headers) in enumerate(sent):
        assert batch.append(key, value, headers, timestamp_ms) == number
    batch.producer = ProducerIdAndEpoch(77, 3)
    batch.position = position
    content = batch.sealed(is_transactional=is_transactional, compression=compression)
    header = read_header(content)
    assert (header.producer_id, header.producer_epoch) == (77, 3)
    assert header.base_sequence == position % 2**31
    assert header.is_transactional is is_transactional
    assert header.max_timestamp_ms == max(timestamp_ms for _, _, timestamp_ms, _ in sent)
    assert [
        (r.key, r.value, r.timestamp_ms, list(r.headers)) for r in decode_batch(content)
    ] == sent

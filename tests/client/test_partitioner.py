"""Keys go where other clients put them."""

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from semel.client.partitioner import murmur2, partition_of


@given(st.binary(max_size=70))
def test_murmur2_agrees_with_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 1000))
def test_a_key_has_one_partition_and_it_exists(key: bytes, partition_count: int) -> None:
    expected = (kafka_python_murmur2(key) & 0x7FFFFFFF) % partition_count
    assert partition_of(key, partition_count) == expected

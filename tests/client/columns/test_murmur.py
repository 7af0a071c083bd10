"""Partitions of a column of keys, against the hash of one key and against librdkafka."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from semel.client.columns.murmur import murmur2_column, partitions_of
from semel.client.partitioner import murmur2, partition_of

some_keys = st.lists(st.binary(max_size=40), max_size=50)


@given(some_keys, st.integers(0, 5))
def test_the_hashes_of_a_column_are_those_of_its_keys(keys: list[bytes], start: int) -> None:
    column = pa.array(keys, pa.binary())[start:]
    assert murmur2_column(column).tolist() == [murmur2(key) for key in keys[start:]]


def test_the_hashes_are_those_of_kafkas_own_tests() -> None:
    # From Kafka's UtilsTest, as signed numbers.
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    found = murmur2_column(pa.array(list(known), pa.binary())).astype(np.int32)
    assert found.tolist() == list(known.values())


@given(st.lists(st.none() | st.binary(max_size=9), max_size=50), st.integers(1, 20))
def test_keys_decide_and_rows_without_one_take_turns(
    keys: list[bytes | None], partition_count: int
) -> None:
    found = partitions_of(pa.array(keys, pa.binary()), partition_count, 2).tolist()
    turn = 2
    for key, partition in zip(keys, found, strict=True):
        if key is None:
            assert partition == turn % partition_count
            turn += 1
        else:
            assert partition == partition_of(key, partition_count)

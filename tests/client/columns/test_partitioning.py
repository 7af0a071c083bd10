"""Partitions of a column of keys, against the hash of one key."""

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.columns.partitioning import ColumnPartitioner, crc32_column, murmur2_column
from semel.client.producing.partitioners import KeyHash, murmur2

some_keys = st.lists(st.binary(max_size=40), max_size=50)


@given(some_keys, st.integers(0, 5))
def test_the_hashes_of_a_column_are_those_of_its_keys(keys: list[bytes], start: int) -> None:
    column = pa.array(keys, pa.binary())[start:]
    assert murmur2_column(column).tolist() == [murmur2(key) for key in keys[start:]]
    assert crc32_column(column).tolist() == [zlib.crc32(key) for key in keys[start:]]


def test_so_are_those_of_long_keys() -> None:
    keys = [bytes(range(256)) * 5, b"", b"x" * 64, b"y" * 65, b"z" * 100_000]
    column = pa.array([b"before", *keys], pa.binary())[1:]
    assert murmur2_column(column).tolist() == [murmur2(key) for key in keys]
    assert crc32_column(column).tolist() == [zlib.crc32(key) for key in keys]


def test_the_hashes_are_those_of_kafkas_own_tests() -> None:
    # From Kafka's UtilsTest, as signed numbers.
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    found = murmur2_column(pa.array(list(known), pa.binary())).astype(np.int32)
    assert found.tolist() == list(known.values())


@pytest.mark.parametrize("key_hash", KeyHash)
@given(
    columns=st.lists(st.lists(st.none() | st.binary(max_size=9), max_size=30), max_size=3),
    partition_count=st.integers(1, 20),
)
def test_keys_decide_and_rows_without_one_take_turns(
    key_hash: KeyHash, columns: list[list[bytes | None]], partition_count: int
) -> None:
    partitioner = ColumnPartitioner(key_hash, 2)
    turn = 2
    for keys in columns:
        found = partitioner.partitions_of(pa.array(keys, pa.binary()), partition_count).tolist()
        for key, partition in zip(keys, found, strict=True):
            is_keyless = key is None or (key_hash is KeyHash.CRC32 and key == b"")
            if partition_count > 1 and is_keyless:
                assert partition == turn % partition_count
                turn += 1
            else:
                assert partition == key_hash.partition_of(key or b"", partition_count)

"""Columns of varints, against those of single numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.client.columns.varints import read_varints, varint_column, varint_sizes
from semel.errors import CorruptMessage
from semel.records.varint import append_varint

small = st.integers(-1, 70_000)
any_number = st.integers(-(2**63), 2**63 - 1)


def written(numbers: list[int]) -> list[bytes]:
    out = []
    for number in numbers:
        one = bytearray()
        append_varint(one, number)
        out.append(bytes(one))
    return out


@given(st.lists(small, max_size=30) | st.lists(any_number, max_size=30))
def test_numbers_are_written_and_read_like_single_ones(numbers: list[int]) -> None:
    column = np.array(numbers, np.int64)
    singles = written(numbers)
    assert varint_column(column).to_pylist() == singles
    assert varint_sizes(column).tolist() == [len(one) for one in singles]
    ends = np.cumsum([len(one) for one in singles], dtype=np.int64)
    begins = ends - np.array([len(one) for one in singles], np.int64)
    if numbers:
        buffer = np.frombuffer(b"".join(singles), np.uint8)
        found, behind = read_varints(buffer, begins)
        assert found.tolist() == numbers
        assert behind.tolist() == ends.tolist()


@pytest.mark.parametrize("tail", [b"\x02", b"\x80\x00"])
def test_more_than_64_bits_are_refused(tail: bytes) -> None:
    buffer = np.frombuffer(b"\xff" * 9 + tail, np.uint8)
    with pytest.raises(CorruptMessage, match="64 bits"):
        read_varints(buffer, np.zeros(1, np.int64))

"""Guessing where records begin finds what walking from record to record finds, or nothing."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from semel.client.columns.walk import chained_records
from semel.records.batch import HEADER_SIZE
from semel.records.records import Record, encode_batch
from semel.records.varint import read_varint

Bounds = list[tuple[int, int]]


def by_walking(batch: bytes, count: int) -> Bounds:
    bounds = []
    position = HEADER_SIZE
    for _ in range(count):
        size, begin = read_varint(batch, position)
        position = begin + size
        bounds.append((begin, position))
    assert position == len(batch)
    return bounds


def by_guessing(batch: bytes, count: int) -> Bounds | None:
    buffer = np.frombuffer(batch, np.uint8)
    found = chained_records(batch, buffer, HEADER_SIZE, len(batch), count)
    return None if found is None else list(zip(*(part.tolist() for part in found), strict=True))


# Zeros are what a beginning is known by, so that values full of them mislead most.
misleading = st.binary(max_size=300) | st.lists(st.sampled_from(b"\x00\x00\x01"), max_size=9).map(
    bytes
)


@given(
    st.lists(
        st.builds(
            Record,
            key=st.none() | misleading,
            value=st.none() | misleading,
            timestamp_ms=st.integers(0, 2**20),
            headers=st.sampled_from([(), (), (), (("name", b"value"),)]),
        ),
        min_size=2,
        max_size=60,
    )
)
def test_a_guess_is_never_wrong(records: list[Record]) -> None:
    batch = encode_batch(records)
    assert by_guessing(batch, len(records)) in (None, by_walking(batch, len(records)))


def test_records_of_many_sizes_are_found_without_walking() -> None:
    numbers = random.Random(4)
    records = [Record(b"key", b"v" * numbers.randrange(200), number) for number in range(5000)]
    batch = encode_batch(records)
    assert by_guessing(batch, len(records)) == by_walking(batch, len(records))


def test_records_with_random_bytes_and_a_few_with_headers_are_found_too() -> None:
    numbers = random.Random(5)
    records = [
        Record(
            numbers.randbytes(8),
            numbers.randbytes(numbers.randrange(100, 300)),
            0,
            (("trace", b"on"),) if number % 1000 == 7 else (),
        )
        for number in range(5000)
    ]
    batch = encode_batch(records)
    assert by_guessing(batch, len(records)) == by_walking(batch, len(records))


def test_records_that_all_have_headers_are_left_to_walking() -> None:
    records = [Record(None, b"v" * number, 0, (("name", b"x"),)) for number in range(100)]
    assert by_guessing(encode_batch(records), len(records)) is None

"""How many offsets a micro-batch and a task get."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.spark.offsets import (
    OffsetRange,
    Reached,
    count_between,
    from_json,
    limited,
    limited_by_size,
    reached_from_json,
    split,
    to_json,
)
from semel.types import TopicPartition

Counts = dict[TopicPartition, int]

PLACES = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(3)]

counts = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 10_000), min_size=1)


def between(
    sizes: Counts,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    start = {place: 7 + place.partition for place in sizes}
    return start, {place: start[place] + size for place, size in sizes.items()}


@given(counts)
def test_offsets_survive_the_json_of_a_checkpoint(offsets: Counts) -> None:
    ids = {"a": "AAAAAAAAAAAAAAAAAAAAAQ", "b": "-_AAAAAAAAAAAAAAAAAAAA"}
    for topic_ids in ({}, ids):
        written = json.loads(json.dumps(to_json(Reached(offsets, topic_ids))))
        assert from_json(written) == offsets
        kept = {topic: id_ for topic, id_ in topic_ids.items() if any(topic in p for p in offsets)}
        assert reached_from_json(written) == (offsets, kept)


def test_the_json_is_that_of_sparks_kafka_source() -> None:
    offsets = {TopicPartition("t", 10): 3, TopicPartition("t", 2): 4, TopicPartition("s", 0): 5}
    plain = {"s": {"0": 5}, "t": {"2": 4, "10": 3}}
    assert to_json(Reached(offsets, {})) == plain
    assert to_json(Reached(offsets, {"t": "an-id"})) == {**plain, "t@an-id": {}}


@pytest.mark.parametrize("text", [[], 3, {"t": 3}, {"t": {"x": 3}}, {"t": {"0": "three"}}])
def test_anything_else_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="JSON such as"):
        from_json(text)


@given(counts, st.integers(1, 20_000))
def test_a_limit_is_kept_and_no_partition_is_forgotten(sizes: Counts, count_max: int) -> None:
    start, end = between(sizes)
    short = limited(start, end, count_max)
    # Each partition may be rounded up to one offset.
    assert count_between(start, short) <= max(count_max, 0) + len(sizes)
    for place, size in sizes.items():
        assert start[place] <= short[place] <= end[place]
        assert (short[place] > start[place]) == (size > 0)


def test_partitions_share_a_limit_by_what_they_have() -> None:
    start, end = between({PLACES[0]: 900, PLACES[1]: 100})
    short = limited(start, end, 100)
    assert [short[place] - start[place] for place in PLACES[:2]] == [90, 10]


@given(counts, st.integers(1, 10**6), st.floats(0.5, 2000))
def test_a_limit_of_bytes_is_kept_by_the_expected_sizes(
    sizes: Counts, size_max: int, size_per_offset: float
) -> None:
    start, end = between(sizes)
    expected = dict.fromkeys(sizes, size_per_offset)
    short = limited_by_size(start, end, size_max, expected)
    assert count_between(start, short) * size_per_offset <= size_max + len(sizes) * size_per_offset
    assert all((short[place] > start[place]) == (size > 0) for place, size in sizes.items())


@given(counts, st.integers(0, 50), st.none() | st.integers(1, 5000))
def test_split_ranges_cover_every_offset_once_and_none_is_too_large(
    sizes: Counts, count_min: int, size_max: int | None
) -> None:
    start, end = between(sizes)
    whole = [OffsetRange(place, start[place], end[place]) for place in sizes]
    parts = split(whole, count_min, size_max)
    assert all(0 < part.size <= (size_max or part.size) for part in parts)
    for place in sizes:
        own = [part for part in parts if part.partition == place]
        bounds = [start[place], *(part.end for part in own)]
        assert [part.start for part in own] == bounds[:-1]
        assert bounds[-1] == end[place]


def test_ranges_are_cut_as_sparks_kafka_source_cuts_them() -> None:
    whole = [OffsetRange(PLACES[0], 0, 10), OffsetRange(PLACES[1], 0, 3)]
    assert [part.size for part in split(whole, size_max=4)] == [3, 3, 4, 3]
    # The greater number wins, where both are asked for.
    assert len(split(whole, 2, 4)) == 4
    assert len(split(whole, 13, 4)) == 13


def test_large_ranges_are_cut_into_as_many_parts_as_wanted() -> None:
    parts = split([OffsetRange(PLACES[0], 0, 900), OffsetRange(PLACES[1], 0, 100)], 10)
    assert [(part.partition, part.size) for part in parts] == [
        *[(PLACES[0], 100)] * 9,
        (PLACES[1], 100),
    ]

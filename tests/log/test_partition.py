"""A partition: its two ends, the terms it was written in, and who may ask about them."""

from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import FencedLeaderEpoch, UnknownLeaderEpoch
from semel.log.partition import Partition, TermStart, check_leader_epoch
from semel.records.batch import BatchHeader, read
from semel.records.records import Record, encode_batch
from semel.types import Offset, ProducerEpoch, ProducerId, Term, TopicPartition

NOW_MS = 1_000


def batch_of(count: int) -> BatchHeader:
    return read(encode_batch([Record(None, b"")] * count))


def written(batches: list[tuple[int, int]]) -> tuple[Partition, list[int]]:
    """A partition with these batches (term, count), and by our own hand each record's term."""
    partition = Partition(TopicPartition("t", 0), 0)
    terms: list[int] = []
    for term, count in batches:
        base_offset = partition.append(batch_of(count), 0, Term(term), NOW_MS)
        assert base_offset == len(terms)
        terms += [term] * count
    partition.advance_high_watermark(partition.log_end_offset)
    return partition, terms


def with_rising_terms(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    rises = accumulate(rise for rise, _ in steps)
    return [(term, count) for term, (_, count) in zip(rises, steps, strict=True)]


histories = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=8).map(
    with_rising_terms
)


@given(histories, st.integers(0, 3))
def test_the_term_of_an_offset_is_that_of_its_record(
    batches: list[tuple[int, int]], rise: int
) -> None:
    partition, terms = written(batches)
    current = Term((terms[-1] if terms else 0) + rise)
    for offset, term in enumerate(terms):
        assert partition.term_at(Offset(offset), current) == term
    assert partition.term_at(Offset(len(terms)), current) == current


@given(histories, st.integers(0, 3), st.integers(-1, 30))
def test_a_term_ends_where_the_next_one_began(
    batches: list[tuple[int, int]], rise: int, asked: int
) -> None:
    partition, terms = written(batches)
    current = Term((terms[-1] if terms else 0) + rise)
    found = partition.end_of_term(asked, current)
    if not 0 <= asked <= current:
        assert found == TermStart(Term(-1), Offset(-1))
        return
    # A reader that has read up to here in that term has seen nothing that is gone.
    end = next((offset for offset, term in enumerate(terms) if term > asked), len(terms))
    assert found.offset == end
    older = [term for term in terms if term <= asked]
    if asked == current:
        assert found.term == current
    elif older:
        assert found.term == older[-1]


def test_only_what_is_durable_ends_a_term() -> None:
    partition = Partition(TopicPartition("t", 0), 0)
    partition.append(batch_of(3), 0, Term(0), NOW_MS)
    assert (partition.log_end_offset, partition.high_watermark) == (3, 0)
    assert partition.end_of_term(0, Term(0)) == (0, 0)
    partition.advance_high_watermark(Offset(3))
    assert partition.end_of_term(0, Term(0)) == (0, 3)
    partition.append(batch_of(2), 0, Term(1), NOW_MS)
    assert partition.end_of_term(0, Term(1)) == (0, 3)
    assert partition.end_of_term(1, Term(1)) == (1, 3)


def test_offsets_have_no_gaps_whatever_the_sizes_of_batches() -> None:
    rng = Random(1)
    partition = Partition(TopicPartition("t", 0), 0)
    expected = 0
    for _ in range(50):
        count = rng.randint(1, 9)
        assert partition.append(batch_of(count), 0, Term(0), NOW_MS) == expected
        expected += count
    assert partition.log_end_offset == expected


def test_a_client_must_know_the_leadership_it_names() -> None:
    check_leader_epoch(-1, Term(5))
    check_leader_epoch(5, Term(5))
    with pytest.raises(FencedLeaderEpoch):
        check_leader_epoch(4, Term(5))
    with pytest.raises(UnknownLeaderEpoch):
        check_leader_epoch(6, Term(5))


def test_a_silent_producer_is_forgotten_and_an_active_one_is_not() -> None:
    partition = Partition(TopicPartition("t", 0), 0)
    for producer_id, at_ms in ((1, 100), (2, 200)):
        batch = encode_batch(
            [Record(None, b"")], producer_id=producer_id, producer_epoch=0, base_sequence=0
        )
        partition.append(read(batch), 0, Term(0), at_ms)
    assert [each for each in (1, 2, 3) if partition.may_forget(each, 100)] == []
    assert [each for each in (1, 2, 3) if partition.may_forget(each, 101)] == [1]
    partition.forget_producers((1, 3))
    assert set(partition.producers) == {2}


moves = st.tuples(st.sampled_from(["open", "plain", "end", "sync", "delete"]), st.integers(0, 9))


@given(st.lists(moves, min_size=10, max_size=60))
def test_the_last_stable_offset_lies_between_start_and_high_watermark_and_never_goes_back(
    steps: list[tuple[str, int]],
) -> None:
    partition = Partition(TopicPartition("t", 0), 0)
    stable = 0
    for kind, number in steps:
        producer_id = ProducerId(number % 3)
        match kind:
            case "open":
                batch = encode_batch(
                    [Record(None, b"")], producer_id=producer_id, is_transactional=True
                )
                partition.append(read(batch), 0, Term(0), NOW_MS)
            case "plain":
                partition.append(batch_of(1), 0, Term(0), NOW_MS)
            case "end":
                partition.end_transaction(
                    producer_id, ProducerEpoch(0), number % 2 == 0, Term(0), NOW_MS
                )
            case "sync":
                partition.advance_high_watermark(partition.log_end_offset)
            case "delete":
                start = min(partition.high_watermark, partition.log_start_offset + number)
                partition.delete_before(Offset(start))
        assert partition.log_start_offset <= partition.last_stable_offset
        assert stable <= partition.last_stable_offset <= partition.high_watermark
        stable = partition.last_stable_offset

"""Retries, sequences, and what an abort may make a partition forget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.errors import InvalidProducerEpoch, OutOfOrderSequence
from semel.log.producers import Producer, SequenceReused, TakenBatch, check_unknown
from semel.types import SEQUENCE_COUNT, Offset, ProducerEpoch, Sequence

EPOCH = ProducerEpoch(0)
LAST = SEQUENCE_COUNT - 1


class Partition:
    """Takes batches as a partition does, and counts their offsets."""

    def __init__(self) -> None:
        self.producer = Producer(EPOCH, 0)
        self.end = 0

    def produce(
        self,
        first: int,
        count: int = 1,
        *,
        fingerprint: int = 0,
        epoch: int = EPOCH,
        in_transaction: bool = True,
    ) -> int:
        last = Sequence((first + count - 1) % SEQUENCE_COUNT)
        original = self.producer.duplicate_of(
            ProducerEpoch(epoch), Sequence(first), last, fingerprint
        )
        if original is not None:
            return original
        base_offset = Offset(self.end)
        self.producer.took(
            ProducerEpoch(epoch),
            TakenBatch(Sequence(first), last, base_offset, fingerprint),
            1,
            is_transactional=in_transaction,
        )
        self.end += count
        return base_offset

    def mark(self, *, committed: bool, epoch: int = EPOCH) -> None:
        self.producer.ended(ProducerEpoch(epoch), 2, committed=committed)
        self.end += 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(0, LAST))
def test_a_retry_of_any_remembered_batch_keeps_its_offset(sizes: list[int], start: int) -> None:
    partition = Partition()
    sent = []
    sequence = start
    for size in sizes:
        offset = partition.produce(sequence, size, in_transaction=False)
        sent.append((sequence, size, offset))
        sequence = (sequence + size) % SEQUENCE_COUNT
    for sequence, size, offset in sent[-5:]:
        assert partition.produce(sequence, size, in_transaction=False) == offset


def test_sequences_wrap_to_zero() -> None:
    partition = Partition()
    partition.produce(LAST - 1, 2)
    assert partition.produce(0) == 2
    assert partition.produce(LAST - 1, 2) == 0


def test_other_records_under_taken_sequences_are_told_apart_from_a_gap() -> None:
    partition = Partition()
    partition.produce(0, 3, fingerprint=1)
    with pytest.raises(SequenceReused):
        partition.produce(0, 3, fingerprint=2)
    with pytest.raises(OutOfOrderSequence) as refused:
        partition.produce(9)
    assert refused.type is OutOfOrderSequence
    assert SequenceReused.code == OutOfOrderSequence.code


def test_a_new_epoch_begins_at_zero_and_an_old_one_is_refused() -> None:
    partition = Partition()
    partition.produce(0, 3)
    with pytest.raises(OutOfOrderSequence):
        partition.produce(3, epoch=1)
    partition.produce(0, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        partition.produce(3)


def test_an_unknown_producer_may_begin_anywhere_but_not_under_tv2() -> None:
    check_unknown(Sequence(17), from_zero=False)
    check_unknown(Sequence(0), from_zero=True)
    with pytest.raises(OutOfOrderSequence):
        check_unknown(Sequence(17), from_zero=True)


@pytest.mark.parametrize("first", range(3, 10))
def test_after_an_abort_any_sequence_of_the_aborted_range_up_to_the_next_is_taken(
    first: int,
) -> None:
    partition = Partition()
    partition.produce(0, 3)
    partition.mark(committed=True)
    for sequence in range(3, 9, 2):
        partition.produce(sequence, 2)
    partition.mark(committed=False)
    end = partition.end
    assert partition.produce(first, fingerprint=7) == end
    with pytest.raises(OutOfOrderSequence):
        partition.produce(first + 2)
    assert partition.produce(first + 1) == end + 1


@pytest.mark.parametrize("first", [2, 10, 11])
def test_after_an_abort_a_sequence_outside_of_the_range_is_out_of_order(first: int) -> None:
    partition = Partition()
    partition.produce(0, 3)
    partition.mark(committed=True)
    partition.produce(3, 6)
    partition.mark(committed=False)
    with pytest.raises(OutOfOrderSequence):
        partition.produce(first)


def test_an_abort_leaves_committed_batches_known_as_duplicates() -> None:
    """Forgetting everything would store a committed record twice."""
    partition = Partition()
    committed = partition.produce(0, 3)
    partition.mark(committed=True)
    partition.produce(3, 2)
    partition.mark(committed=False)
    end = partition.end
    assert partition.produce(0, 3) == committed
    assert partition.end == end


def test_an_aborted_batch_is_not_taken_for_the_retry_of_itself() -> None:
    partition = Partition()
    first = partition.produce(0, 3)
    partition.mark(committed=False)
    again = partition.produce(0, 3)
    assert again > first


def test_the_aborted_range_may_wrap() -> None:
    partition = Partition()
    partition.produce(LAST - 1, 4)
    partition.mark(committed=False)
    for first in (LAST - 1, LAST, 0, 1, 2):
        assert partition.producer.duplicate_of(EPOCH, Sequence(first), Sequence(first), 0) is None
    for first in (LAST - 2, 3):
        with pytest.raises(OutOfOrderSequence):
            partition.producer.duplicate_of(EPOCH, Sequence(first), Sequence(first), 0)


def test_a_commit_forgets_nothing_and_goes_on_behind() -> None:
    partition = Partition()
    offset = partition.produce(0, 3)
    partition.mark(committed=True)
    assert partition.produce(0, 3) == offset
    with pytest.raises(OutOfOrderSequence):
        partition.produce(1)
    partition.produce(3)


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_of_the_next_epoch_fences_the_old_one_and_asks_for_zero(committed: bool) -> None:
    partition = Partition()
    partition.produce(0, 3)
    partition.mark(committed=committed, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        partition.produce(3)
    with pytest.raises(OutOfOrderSequence):
        partition.produce(3, epoch=1)
    partition.produce(0, 1, epoch=1)
    partition.produce(1, 1, epoch=1)


def test_a_marker_without_data_changes_no_sequences() -> None:
    partition = Partition()
    offset = partition.produce(0, 3, in_transaction=False)
    partition.mark(committed=False)
    assert partition.produce(0, 3) == offset
    partition.produce(3)


def test_an_abort_of_more_batches_than_are_remembered_still_knows_where_it_began() -> None:
    partition = Partition()
    partition.produce(0, 2)
    partition.mark(committed=True)
    for sequence in range(2, 12):
        partition.produce(sequence)
    partition.mark(committed=False)
    partition.produce(2)
    with pytest.raises(OutOfOrderSequence):
        partition.produce(5)


def test_an_open_transaction_keeps_its_producer_known() -> None:
    partition = Partition()
    partition.produce(0)
    assert not partition.producer.may_expire(1_000)
    partition.mark(committed=True)
    assert partition.producer.may_expire(1_000)
    assert not partition.producer.may_expire(2)


class Model:
    """The oracle: a list of all batches with their fates, searched from the start each time."""

    def __init__(self) -> None:
        self.stored: list[tuple[int, int, int, str]] = []
        self.open: list[tuple[int, int, int]] = []
        self.last = -1

    def expected(self, first: int, last: int) -> str:
        if any((first, last) == batch[:2] for batch in self.recent()):
            return "duplicate"
        if self.last < 0 or first == self.last + 1:
            return "next"
        if not self.open and self.stored and self.stored[-1][3] == "aborted":
            start = self.start_of_last_transaction()
            if start <= first <= self.last + 1:
                return "next"
        return "refused"

    def start_of_last_transaction(self) -> int:
        number = self.stored[-1][2]
        return next(first for first, _, batch_number, _ in self.stored if batch_number == number)

    def recent(self) -> list[tuple[int, int]]:
        """The last five that were taken, less those that were aborted since."""
        fates = [(first, last, fate) for first, last, _, fate in self.stored]
        fates += [(first, last, "open") for first, last, _ in self.open]
        return [(first, last) for first, last, fate in fates[-5:] if fate != "aborted"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "send", "send", "commit", "abort"]),
            st.integers(0, 12),
            st.integers(1, 3),
        ),
        max_size=40,
    )
)
def test_any_sequence_of_batches_and_markers_is_judged_as_by_the_list_of_all(
    steps: list[tuple[str, int, int]],
) -> None:
    partition, model = Partition(), Model()
    number = 0
    for kind, back, count in steps:
        if kind != "send":
            partition.mark(committed=kind == "commit")
            if model.open:
                fate = "committed" if kind == "commit" else "aborted"
                model.stored += [(first, last, number, fate) for first, last, _ in model.open]
                model.open = []
                number += 1
            continue
        first = max(0, model.last + 3 - back)
        last = first + count - 1
        expected = model.expected(first, last)
        end = partition.end
        if expected == "refused":
            with pytest.raises(OutOfOrderSequence):
                partition.produce(first, count)
        else:
            partition.produce(first, count)
            assert (partition.end > end) is (expected == "next")
        if expected == "next":
            model.open.append((first, last, number))
            model.last = last

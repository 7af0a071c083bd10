"""Retries, sequences, and what an abort may make a partition forget."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import example, given
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
        self.producer = self.producer.took(
            ProducerEpoch(epoch),
            TakenBatch(Sequence(first), last, base_offset, fingerprint),
            1,
            in_transaction,
        )
        self.end += count
        return base_offset

    def mark(self, *, committed: bool, epoch: int = EPOCH) -> None:
        self.producer = self.producer.ended(ProducerEpoch(epoch), 2, committed=committed)
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


@dataclass
class Sent:
    """A batch that was taken; times count the steps of the test."""

    first: int
    last: int
    taken_at: int
    aborted_at: float = math.inf


class Model:
    """The oracle: a list of all batches with their fates, searched from the start each time."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.open: list[Sent] = []
        self.aborted: list[Sent] = []
        """Of the transaction before, if nothing was taken since."""

    @property
    def last(self) -> int:
        return self.sent[-1].last if self.sent else -1

    def expected(self, first: int, last: int) -> str:
        if any((first, last) == (each.first, each.last) for each in self.remembered()):
            return "duplicate"
        if not self.sent or first == self.last + 1:
            return "next"
        if self.aborted and self.aborted[0].first <= first <= self.last + 1:
            return "next"
        return "refused"

    def remembered(self) -> list[Sent]:
        """What was not aborted, nor ever the sixth of the batches that counted at a time."""
        return [
            each
            for place, each in enumerate(self.sent)
            if each.aborted_at == math.inf
            and all(self.count_between(each, later) < 5 for later in self.sent[place + 1 :])
        ]

    def count_between(self, early: Sent, late: Sent) -> int:
        """The batches behind the early one that counted when the late one was taken, with it."""
        return sum(
            early.taken_at < each.taken_at <= late.taken_at < each.aborted_at for each in self.sent
        )

    def take(self, first: int, last: int, now: int) -> None:
        self.sent.append(Sent(first, last, now))
        self.open.append(self.sent[-1])
        self.aborted = []

    def end(self, *, committed: bool, now: int) -> None:
        if not committed and self.open:
            self.aborted = self.open
            for each in self.open:
                each.aborted_at = now
        self.open = []


@example(
    [
        *[("send", 2, 2), ("send", 2, 1), ("send", 2, 1), ("commit", 0, 1)],
        *[("send", 2, 1), ("abort", 0, 1), ("send", 3, 1), ("send", 2, 1), ("send", 8, 2)],
    ]
).via("an aborted batch that no longer counts among the five")
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "send", "send", "commit", "abort"]),
            st.integers(0, 12),
            st.integers(1, 3),
        ),
        min_size=10,
        max_size=40,
    )
)
def test_any_sequence_of_batches_and_markers_is_judged_as_by_the_list_of_all(
    steps: list[tuple[str, int, int]],
) -> None:
    partition, model = Partition(), Model()
    for now, (kind, back, count) in enumerate(steps):
        if kind != "send":
            partition.mark(committed=kind == "commit")
            model.end(committed=kind == "commit", now=now)
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
            model.take(first, last, now)

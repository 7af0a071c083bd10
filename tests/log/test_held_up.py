"""A new producer's first batch that found no room is not overtaken by a smaller one behind it."""

import pytest

from semel.errors import OutOfOrderSequence
from semel.log.partition import HELD_UP_MAX, Partition
from semel.records.batch import BatchHeader, read
from semel.records.records import Record, encode_batch
from semel.types import Term, TopicPartition


def batch(sequence: int, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return read(
        encode_batch(
            [Record(None, b"")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def new_partition() -> Partition:
    return Partition(TopicPartition("t", 0), 0)


def test_what_was_sent_behind_the_first_batch_waits_for_it() -> None:
    partition = new_partition()
    partition.found_no_room(batch(0))
    partition.found_no_room(batch(1))
    with pytest.raises(OutOfOrderSequence, match="0 found no room"):
        partition.admit(batch(2), 0)
    assert partition.admit(batch(0), 0) is None
    partition.append(batch(0), 0, Term(0), 0)
    assert partition.admit(batch(1), 0) is None
    assert not partition.held_up


def test_a_later_incarnation_may_begin_anew() -> None:
    partition = new_partition()
    partition.found_no_room(batch(5))
    assert partition.admit(batch(0, epoch=1), 0) is None


def test_a_known_producer_is_not_held_up_by_more_than_its_sequences() -> None:
    partition = new_partition()
    partition.append(batch(0), 0, Term(0), 0)
    partition.found_no_room(batch(1))
    assert not partition.held_up


def test_others_are_not_held_up() -> None:
    partition = new_partition()
    partition.found_no_room(batch(0))
    assert partition.admit(batch(3, producer_id=8), 0) is None
    assert partition.admit(read(encode_batch([Record(None, b"")])), 0) is None


def test_a_full_disk_does_not_fill_the_memory() -> None:
    partition = new_partition()
    for producer_id in range(HELD_UP_MAX + 10):
        partition.found_no_room(batch(0, producer_id))
    assert len(partition.held_up) == HELD_UP_MAX

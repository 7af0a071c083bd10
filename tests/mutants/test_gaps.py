"""Each rule by which gaps are passed over is left out; a named test must find that."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from broker import test_gaps
from semel.journal.containers import Containers
from semel.journal.index import BatchIndex
from semel.journal.sealed import SealedIndex
from semel.journal.stretch import Stretch
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.types import Buffer
from support.compiled import plain_python

Plant = Callable[[pytest.MonkeyPatch], None]


@contextmanager
def failing() -> Iterator[None]:
    """By what it asserts, within the tasks of its broker."""
    with pytest.raises(ExceptionGroup) as found:
        yield
    assert found.value.subgroup(AssertionError) is not None


def the_last_batch_to_begin_is_taken_for_the_one_that_holds_an_offset(
    patch: pytest.MonkeyPatch,
) -> None:
    patch.setattr(Stretch, "ends_before", lambda stretch, row, offset: False)


def index_files_do_not_tell_where_batches_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SealedIndex, "_deltas", lambda index, start, count: ())


def the_last_batch_of_earlier_segments_is_given_wherever_it_ends(
    patch: pytest.MonkeyPatch,
) -> None:
    keep = Containers._last_before

    def without_deltas(
        containers: Containers, partition: int, number: int
    ) -> tuple[int, Stretch] | None:
        found = keep(containers, partition, number)
        return None if found is None else (found[0], found[1]._replace(last_offset_deltas=()))

    patch.setattr(Containers, "_last_before", without_deltas)


def rows_do_not_tell_where_batches_end(patch: pytest.MonkeyPatch) -> None:
    keep = BatchIndex.add

    def without_delta(index: BatchIndex, *row: int) -> None:
        keep(index, *row[:5])

    patch.setattr(BatchIndex, "add", without_delta)


@plain_python
@pytest.mark.parametrize(
    "plant",
    [
        the_last_batch_to_begin_is_taken_for_the_one_that_holds_an_offset,
        index_files_do_not_tell_where_batches_end,
        the_last_batch_of_earlier_segments_is_given_wherever_it_ends,
        rows_do_not_tell_where_batches_end,
    ],
)
def test_the_absence_of_a_rule_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with failing():
        test_gaps.test_gaps_are_passed_over_wherever_the_batches_lie(is_cold=False)


@plain_python
def test_a_record_that_was_compacted_away_is_not_found_by_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(stored: Buffer) -> BatchHeader:
        return read_header(stored).replaced(record_count=1)

    read_header = record_batch.read_header
    monkeypatch.setattr(record_batch, "read_header", full)
    with failing():
        test_gaps.test_a_batch_without_records_has_none_at_the_time_of_the_log_either()

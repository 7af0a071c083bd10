"""Reads of many small batches: few calls, and no more memory than is asked for."""

from random import Random

import pytest

from semel.journal.file.journal import FileJournal
from semel.journal.file.memory import MemoryDevice
from semel.journal.file.segments import GAP_MAX, RUN_SIZE_MAX, Segments
from support.journal_world import SETTINGS


@pytest.fixture
def segments() -> Segments:
    """With one that is long enough for whatever is asked."""
    segments = FileJournal.open(MemoryDevice(Random(1)), SETTINGS).segments
    segments.limit = 2**40
    return segments


def pieces(count: int, size: int, gap: int) -> list[tuple[int, int]]:
    return [(number * (size + gap), size) for number in range(count)]


def test_pieces_that_stand_close_are_read_at_once_and_none_is_left_out(segments: Segments) -> None:
    wanted = pieces(50, 10, 5)
    (run,) = segments.runs(wanted)
    assert [(run.position + start, stop - start) for start, stop in run.pieces] == wanted
    assert not run.is_mostly_gaps


def test_pieces_far_apart_are_read_alone(segments: Segments) -> None:
    runs = segments.runs([(0, 10), (10 + GAP_MAX + 1, 10)])
    assert [run.size for run in runs] == [10, 10]


def test_a_run_among_the_batches_of_others_is_bounded_and_known_as_such(segments: Segments) -> None:
    wanted = pieces(5_000, 100, GAP_MAX)
    runs = segments.runs(wanted)
    assert len(runs) > 1
    assert all(run.size <= RUN_SIZE_MAX and run.is_mostly_gaps for run in runs)
    found = [(run.position + start, stop - start) for run in runs for start, stop in run.pieces]
    assert found == wanted


def test_one_piece_larger_than_a_run_is_read_whole(segments: Segments) -> None:
    (run,) = segments.runs([(0, RUN_SIZE_MAX * 2)])
    assert run.size == RUN_SIZE_MAX * 2

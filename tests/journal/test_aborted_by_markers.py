"""Aborted transactions by where their markers lie, over segments and in the open one."""

from itertools import combinations

from semel.journal.index import BatchIndex
from semel.log.transactions import Aborted
from semel.types import Buffer, Offset, ProducerId

SEGMENTS = 5
BATCHES = 4
"""In each segment, of which the second aborts what began with the first; the third segment has
no marker, and the partition is not in the fourth."""
NONE_ABORTED, NOT_THERE = 2, 3


def nothing_on_disk(name: str, offset: int, size: int) -> Buffer | None:
    raise AssertionError("all of it is in memory")


def build() -> tuple[BatchIndex, list[Aborted]]:
    index = BatchIndex(nothing_on_disk)
    known: list[Aborted] = []
    offset = position = 0
    for segment in range(SEGMENTS):
        base = position
        for number in range(BATCHES):
            if segment == NOT_THERE:
                index.add(8, number, position, 10, 0, 0)
            else:
                index.add(7, offset, position, 10, 0, 0)
                if number == 1 and segment != NONE_ABORTED:
                    ended = Aborted(
                        ProducerId(segment), *map(Offset, (offset - 1, offset, offset + 1))
                    )
                    index.add_aborted(7, ended)
                    known.append(ended)
                offset += 1
            position += 10
        if segment < SEGMENTS - 1:
            index.seal(base, position)
    return index, known


def test_each_is_found_in_every_range_that_has_its_marker_and_in_no_other() -> None:
    index, known = build()
    for start, end in combinations(range(BATCHES * SEGMENTS), 2):
        wanted = [each for each in known if start <= each.marker_offset < end]
        assert index.aborted_by_markers(7, start, end) == wanted, (start, end)
    assert index.aborted_by_markers(8, 0, 100) == []
    assert index.aborted_by_markers(9, 0, 100) == []

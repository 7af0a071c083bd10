"""The rows of one partition in one segment, found by offset, by time and by bytes."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from semel.journal.pages import Column
from semel.journal.rows import ROWS_PER_SUM, UNKNOWN_DELTA, Location, Rows

ROWS_CUT_MIN: Final = 16
ROWS_CUT_MAX: Final = 512
"""Rows that are taken out of pages at once; few first, as most readers want few."""


class Numbers(Protocol):
    """A column, wherever it lies."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> int: ...


class Stretch(NamedTuple):
    """The rows of one partition in one segment, from `first` below `stop` of these columns."""

    base_offsets: Numbers
    positions: Numbers
    timestamps: Numbers
    sizes: Numbers
    last_offset_deltas: Numbers
    """None of an index that does not tell."""
    size_sums: Numbers
    """Of the rows from `first` up to each `ROWS_PER_SUM`th, as far as they were summed up."""
    first: int
    stop: int

    def row_of(self, offset: int) -> int:
        """Of the last batch to begin at or before the offset; one before `first` if none does."""
        return find_row(self.base_offsets, offset + 1, self.first, self.stop) - 1

    def ends_before(self, row: int, offset: int) -> bool:
        """Whether all of this batch lies before the offset, for all that is known."""
        if not len(self.last_offset_deltas):
            return False
        delta = self.last_offset_deltas[row]
        return delta != UNKNOWN_DELTA and self.base_offsets[row] + delta < offset

    def row_to_find(self, offset: int) -> int:
        """Of the first batch that ends at or behind the offset, for all that is known."""
        row = self.row_of(offset)
        return self.first if row < self.first else row + self.ends_before(row, offset)

    def row_of_time(self, timestamp_ms: int) -> int:
        """Of the first batch as young as this."""
        return find_row(self.timestamps, timestamp_ms, self.first, self.stop)

    def bytes_before(self, row: int) -> int:
        """Of the rows from `first` up to this one, without it."""
        known = min((row - self.first) // ROWS_PER_SUM, len(self.size_sums))
        rest = sum(copied(self.sizes, self.first + known * ROWS_PER_SUM, row))
        return self.size_sums[known - 1] + rest if known else rest

    def bytes_from(self, row: int) -> int:
        return self.bytes_before(self.stop) - self.bytes_before(row)

    def row_behind(self, byte_count: int) -> int:
        """The last row before which there are so many bytes at most; one before `first` if that is
        less than none."""
        if byte_count < 0:
            return self.first - 1
        sum_count = len(self.size_sums)
        known = find_row(self.size_sums, byte_count + 1, 0, sum_count)
        row = self.first + known * ROWS_PER_SUM
        stop = row + ROWS_PER_SUM if known < sum_count else self.stop
        left = byte_count - self.size_sums[known - 1] if known else byte_count
        for size in copied(self.sizes, row, stop):
            if size > left:
                return row
            left -= size
            row += 1
        return self.stop - 1

    def location(self, row: int) -> Location:
        return Location(self.base_offsets[row], self.positions[row], self.sizes[row])

    @property
    def is_at_hand(self) -> bool:
        """Where these rows begin and lie can be told without finding the page of each."""
        return not (
            isinstance(self.base_offsets, Column)
            or isinstance(self.positions, Column)
            or isinstance(self.sizes, Column)
        )

    def without_pages(self, first: int, stop: int) -> "Stretch":
        """Where these rows begin and lie, in columns that are at hand: who goes through many should
        not find the page of each."""
        offsets, positions, sizes = self.base_offsets, self.positions, self.sizes
        if self.is_at_hand:
            return Stretch(offsets, positions, (), sizes, (), (), first, stop)
        return Stretch(
            copied(offsets, first, stop),
            copied(positions, first, stop),
            (),
            copied(sizes, first, stop),
            (),
            (),
            0,
            stop - first,
        )

    def in_cuts(self, row: int) -> Iterator["Stretch"]:
        """From this row on without pages, few at first."""
        count = ROWS_CUT_MIN
        while row < self.stop:
            stop = min(row + count, self.stop)
            yield self.without_pages(row, stop)
            row = stop
            count = min(2 * count, ROWS_CUT_MAX)

    def row_of_time_from(self, timestamp_ms: int, offset: int) -> int:
        """Of the first batch as young as this that begins at the offset or later."""
        row = self.row_of_time(timestamp_ms)
        if row < self.stop and self.base_offsets[row] < offset:
            return self.row_of(offset - 1) + 1
        return row

    def offset_with_bytes(self, byte_count: int) -> int | None:
        """The base offset of the last row from which on there are so many bytes; None if all have
        fewer."""
        row = self.row_behind(self.bytes_before(self.stop) - byte_count)
        return None if row < self.first else self.base_offsets[row]


def stretch_of(rows: Rows) -> Stretch:
    return Stretch(
        rows.base_offsets,
        rows.positions,
        rows.timestamps,
        rows.sizes,
        rows.last_offset_deltas,
        rows.size_sums,
        0,
        len(rows.base_offsets),
    )


def copied(column: Numbers, first: int, stop: int) -> "array[int]":
    """A copy of these rows."""
    if isinstance(column, Column):
        return column.cut(first, stop)
    if isinstance(column, array):
        return column[first:stop]
    assert isinstance(column, memoryview)
    return array(column.format, column[first:stop].tobytes())


def find_row(column: Numbers, value: int, first: int, stop: int) -> int:
    """The first row whose number is not below the value."""
    if isinstance(column, Column):
        return column.bisect_left(value, first, stop)
    return bisect_left(column, value, first, stop)

"""Where batches of one segment lie, in memory, and how far a partition had come at some point."""

from array import array
from bisect import bisect_left
from typing import Final, NamedTuple

from semel.log.transactions import AbortedIndex

TIMESTAMP_MIN: Final = -(2**63)


class Location(NamedTuple):
    """A stored batch."""

    base_offset: int
    position: int
    size: int


class Standing(NamedTuple):
    """How far a partition has come at some point of the journal."""

    last: Location
    byte_count: int
    timestamp_max: int
    aborted_count: int
    """Aborted transactions whose markers lie before that point."""


class Rows:
    """Law: rows are only ever added, at rising positions, so that those before a position of the
    journal can be told at any later time. There is at least one."""

    __slots__ = (
        "aborted",
        "base_offsets",
        "byte_count",
        "earlier_aborted_count",
        "earlier_byte_count",
        "positions",
        "sizes",
        "timestamp_max",
        "timestamps",
    )

    def __init__(self, earlier: Standing | None) -> None:
        """`earlier` is where the partition stood when the segment began."""
        self.base_offsets = array("q")
        self.positions = array("q")
        self.timestamps = array("q")
        """The running maximum over all segments, so that a time is found by halving."""
        self.sizes = array("i")
        self.aborted: AbortedIndex | None = None
        self.timestamp_max = TIMESTAMP_MIN if earlier is None else earlier.timestamp_max
        self.earlier_byte_count = 0 if earlier is None else earlier.byte_count
        self.byte_count = self.earlier_byte_count
        """With all rows: kept, since there may be very many to sum up."""
        self.earlier_aborted_count = 0 if earlier is None else earlier.aborted_count

    def count_before(self, position: int) -> int:
        return bisect_left(self.positions, position)

    def aborted_count(self) -> int:
        return self.earlier_aborted_count + (0 if self.aborted is None else len(self.aborted))

    def aborted_count_before(self, row_count: int) -> int:
        """How many of those in this segment have their markers among the first rows."""
        if self.aborted is None or not row_count:
            return 0
        return self.aborted.count_before(self.base_offsets[row_count - 1] + 1)

    def last(self) -> Location:
        return Location(self.base_offsets[-1], self.positions[-1], self.sizes[-1])

    def standing(self) -> Standing:
        return Standing(self.last(), self.byte_count, self.timestamp_max, self.aborted_count())

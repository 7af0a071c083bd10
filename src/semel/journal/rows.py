"""Where the batches of one segment lie, in memory, and where all partitions stood when it ended."""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Generator, Sequence
from itertools import compress
from typing import Final, NamedTuple

from semel.log.transactions import AbortedIndex

TIMESTAMP_MIN: Final = -(2**63)
COLUMN_COUNT: Final = 7
NO_SLOT: Final = -1
UNKNOWN_DELTA: Final = -1
"""Of a batch whose last offset was not kept: it reaches up to the next."""
ROWS_PER_SUM: Final = 256
"""Sizes that are summed up once, so that no more than so many are whenever bytes are counted."""
ROWS_SUMMED_AT_ONCE: Final = 128 * ROWS_PER_SUM
"""Takes less than a millisecond."""
SLOTS_AT_ONCE: Final = 1024
"""That are copied in no time, in all columns."""


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
        "last_offset_deltas",
        "positions",
        "size_sums",
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
        self.size_sums = array("q")
        """Of all rows up to each `ROWS_PER_SUM`th, as far as they were summed up."""
        self.last_offset_deltas = array("i")
        """There may be a gap behind a batch, so that the next one does not tell where it ends."""
        self.aborted: AbortedIndex | None = None
        self.timestamp_max = TIMESTAMP_MIN if earlier is None else earlier.timestamp_max
        self.earlier_byte_count = 0 if earlier is None else earlier.byte_count
        self.byte_count = self.earlier_byte_count
        """With all rows: kept, since there may be very many to sum up."""
        self.earlier_aborted_count = 0 if earlier is None else earlier.aborted_count

    def sum_up(self) -> bool:
        """Some rows more; whether there are others."""
        sums, sizes = self.size_sums, self.sizes
        first = len(sums) * ROWS_PER_SUM
        stop = min(first + ROWS_SUMMED_AT_ONCE, len(sizes))
        while first + ROWS_PER_SUM <= stop:
            size = sum(sizes[first : first + ROWS_PER_SUM])
            sums.append(sums[-1] + size if sums else size)
            first += ROWS_PER_SUM
        return first + ROWS_PER_SUM <= len(sizes)

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


class Directory:
    """Where every known partition stood when a segment ended: columns with a slot for each, by
    number.

    A directory never changes once it is made, so that a thread may make the next one of it while
    lookups go on.
    """

    __slots__ = (
        "aborted_counts",
        "byte_counts",
        "last_offsets",
        "last_positions",
        "last_sizes",
        "partitions",
        "timestamp_maxima",
    )

    def __init__(self, columns: "Sequence[array[int]] | None" = None) -> None:
        if columns is None:
            columns = [array("q") for _ in range(COLUMN_COUNT)]
        self.partitions = columns[0]
        """Rising."""
        self.last_offsets = columns[1]
        """Of the partition's last batch: its base offset, and where it lies."""
        self.last_positions = columns[2]
        self.last_sizes = columns[3]
        self.byte_counts = columns[4]
        self.timestamp_maxima = columns[5]
        self.aborted_counts = columns[6]

    def __len__(self) -> int:
        return len(self.partitions)

    def columns(self) -> "list[array[int]]":
        return [
            self.partitions,
            self.last_offsets,
            self.last_positions,
            self.last_sizes,
            self.byte_counts,
            self.timestamp_maxima,
            self.aborted_counts,
        ]

    def slot(self, partition: int) -> int:
        """NO_SLOT if the partition had no batch."""
        partitions = self.partitions
        slot = bisect_left(partitions, partition)
        return slot if slot < len(partitions) and partitions[slot] == partition else NO_SLOT

    def last(self, slot: int) -> Location:
        return Location(self.last_offsets[slot], self.last_positions[slot], self.last_sizes[slot])

    def standing(self, partition: int) -> Standing | None:
        slot = self.slot(partition)
        if slot == NO_SLOT:
            return None
        return Standing(
            self.last(slot),
            self.byte_counts[slot],
            self.timestamp_maxima[slot],
            self.aborted_counts[slot],
        )

    def put(self, slot: int, standing: Standing) -> None:
        """Only by who makes the directory."""
        last = standing.last
        self.last_offsets[slot] = last.base_offset
        self.last_positions[slot] = last.position
        self.last_sizes[slot] = last.size
        self.byte_counts[slot] = standing.byte_count
        self.timestamp_maxima[slot] = standing.timestamp_max
        self.aborted_counts[slot] = standing.aborted_count

    def successor(
        self, new: Sequence[int], dropped: Collection[int]
    ) -> "Generator[None, None, Directory]":
        """A copy without those that are dropped, and with empty slots for new partitions, which
        are given by rising number. Column by column, if there are many."""
        columns = self.columns()
        gone = [slot for slot in map(self.slot, dropped) if slot != NO_SLOT]
        if gone:
            kept = bytearray(b"\1") * len(self)
            for slot in gone:
                kept[slot] = 0
            for number, column in enumerate(columns):
                columns[number] = array("q", compress(column, kept))
                if len(self) > SLOTS_AT_ONCE:
                    yield
        for number, column in enumerate(columns):
            columns[number] = column[:]
            if len(self) > SLOTS_AT_ONCE:
                yield
        for start in range(0, len(new), SLOTS_AT_ONCE):
            if start:
                yield
            some = new[start : start + SLOTS_AT_ONCE]
            slots = [bisect_left(columns[0], partition) for partition in some]
            for number, column in enumerate(columns):
                columns[number] = _with_slots(column, slots, some if number == 0 else None)
        return Directory(columns)


def _with_slots(
    column: "array[int]", slots: Sequence[int], values: Sequence[int] | None
) -> "array[int]":
    """A copy with a value before each of these slots, which rise; 0 where none is given."""
    copied: array[int] = array("q")
    start = 0
    for number, slot in enumerate(slots):
        if slot > start:
            copied += column[start:slot]
            start = slot
        copied.append(0 if values is None else values[number])
    copied += column[start:]
    return copied

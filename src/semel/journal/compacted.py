"""What compaction has left of partitions, which lies in volumes of its own."""

from collections.abc import Iterator
from typing import NamedTuple

from semel.journal.containers import Containers
from semel.journal.rows import Location
from semel.journal.stretch import Stretch
from semel.log.transactions import AbortedIndex, AbortedTransaction


class Compacted(NamedTuple):
    """What compaction has left of a partition before an offset lies in a volume of its own, and is
    found nowhere else."""

    end: int
    volume: int | None
    """Where it begins; None if nothing is left."""


class CompactedParts:
    """Of the partitions that were compacted, what lies before their ends."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers
        self.parts: dict[int, Compacted] = {}
        """By partition."""

    # Lookups. Each is of one part.

    def spans(self, partition: int, part: Compacted, offset: int) -> Iterator[Stretch]:
        """All batches from the first that ends at or behind this offset."""
        stretch = self._stretch(partition, part)
        if stretch is not None:
            yield from stretch.in_cuts(stretch.row_to_find(offset))

    def bytes_from(self, partition: int, part: Compacted, offset: int) -> int:
        """The bytes of these batches."""
        stretch = self._stretch(partition, part)
        return 0 if stretch is None else stretch.bytes_from(stretch.row_to_find(offset))

    def offset_with_bytes(self, partition: int, part: Compacted, byte_count: int) -> int | None:
        """The base offset of the last batch from which on there are so many bytes at least."""
        stretch = self._stretch(partition, part)
        return None if stretch is None else stretch.offset_with_bytes(byte_count)

    def last_begun(self, partition: int, part: Compacted, offset: int) -> Location | None:
        """The last batch to begin at or before this offset."""
        stretch = self._stretch(partition, part)
        if stretch is None:
            return None
        row = stretch.row_of(offset)
        return None if row < stretch.first else stretch.location(row)

    def first_at_or_after(
        self, partition: int, part: Compacted, timestamp_ms: int, from_offset: int
    ) -> Location | None:
        """The first batch as young as this, of those that begin at the offset or later."""
        stretch = self._stretch(partition, part)
        if stretch is None:
            return None
        row = stretch.row_of_time_from(timestamp_ms, from_offset)
        return stretch.location(row) if row < stretch.stop else None

    def gather_aborted(
        self, partition: int, part: Compacted, start: int, end: int, found: list[AbortedTransaction]
    ) -> None:
        """Those with a record or marker in [start, end) whose markers lie here."""
        for piece in self.aborted_pieces(partition, part, start):
            piece.gather(start, end, found)

    def aborted_pieces(self, partition: int, part: Compacted, start: int) -> list[AbortedIndex]:
        """All from the first marker at or behind this offset on, and perhaps some before."""
        if part.volume is None:
            return []
        index = self._containers.file_at(part.volume)
        return list(index.aborted_from(index.entry(partition), start))

    def _stretch(self, partition: int, part: Compacted) -> Stretch | None:
        if part.volume is None:
            return None
        index = self._containers.file_at(part.volume)
        return index.stretch(index.entry(partition))

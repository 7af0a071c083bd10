"""In place of the index of a container that cannot be read: what its neighbours tell of it.

Each container tells of every partition how far it had come at its end. Where a partition has as
many bytes behind the damage as before it, it has none in it, and is no worse for the damage.
"""

from collections.abc import Iterator

from semel.errors import CorruptJournal
from semel.journal.sealed import NO_ENTRY, SegmentIndex
from semel.journal.stretch import Stretch
from semel.log.transactions import AbortedIndex


class DamagedIndex:
    """Of a partition that may have something in it, it raises why that cannot be told."""

    def __init__(
        self,
        damage: CorruptJournal | OSError,
        before: SegmentIndex | None,
        behind: SegmentIndex | None,
    ) -> None:
        """Between the nearest of its neighbours that can be read."""
        self._damage = damage
        self._before = before
        self._behind = behind

    def entry(self, partition: int) -> int:
        if self._behind is None:
            raise self._damage
        before, byte_count = NO_ENTRY, 0
        if self._before is not None:
            before = self._before.entry(partition)
            if before != NO_ENTRY:
                byte_count = self._before.byte_count(before)
        behind = self._behind.entry(partition)
        if behind != NO_ENTRY and byte_count != _bytes_before(self._behind, behind):
            raise self._damage
        return before

    def last_offset(self, entry: int) -> int:
        assert self._before is not None
        return self._before.last_offset(entry)

    def byte_count(self, entry: int) -> int:
        assert self._before is not None
        return self._before.byte_count(entry)

    def timestamp_max(self, entry: int) -> int:
        assert self._before is not None
        return self._before.timestamp_max(entry)

    def aborted_count(self, entry: int) -> int:
        assert self._before is not None
        return self._before.aborted_count(entry)

    def stretch(self, entry: int) -> Stretch | None:
        return None

    def aborted_from(self, entry: int, offset: int) -> Iterator[AbortedIndex]:
        return iter(())


def _bytes_before(index: SegmentIndex, entry: int) -> int:
    """Of all that lies before its first batch here; of a volume with those of its own that are
    gone, so that it may be too many."""
    byte_count = index.byte_count(entry)
    stretch = index.stretch(entry)
    return byte_count if stretch is None else byte_count - stretch.bytes_from(stretch.first)

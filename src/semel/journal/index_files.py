"""Opens the index of a sealed segment, in whatever format it is, and reads the older ones."""

from array import array
from collections.abc import Iterator
from typing import Literal

from semel.errors import CorruptJournal
from semel.journal.pages import Pages, damaged
from semel.journal.rows import Directory, Rows
from semel.journal.sealed import (
    COLUMN_COUNTS_BEFORE,
    HEADER_SIZE,
    Header,
    SealedIndex,
    find_entry,
    read_header,
    restored_rows,
    wrong_checksum,
)
from semel.journal.stretch import Stretch
from semel.log.transactions import AbortedIndex
from semel.records.checksum import crc32c
from semel.types import Buffer


class SealedIndexBefore:
    """In the formats 1 and 2, which older versions have left and which are only read.

        header | the directory's columns | base offsets | positions | timestamps | sizes

    Such an index is held whole. Format 1 has one checksum over all of it; format 2 has one for the
    directory, checked when it is opened, and one for each partition's rows, checked when they are
    looked at. Neither has aborted transactions: checkpoints held these.
    """

    def __init__(self, stored: memoryview, name: str, header: Header) -> None:
        self.base = header.base
        self.end = header.end
        self._name = name
        partition_count, row_count = header.partition_count, header.length
        column_count = COLUMN_COUNTS_BEFORE[header.format]
        checked = stored[HEADER_SIZE:]
        if header.format == 2:
            checked = checked[: column_count * partition_count * 8]
        if header.checksum != crc32c(checked):
            raise wrong_checksum(name)
        words = _cast(stored[HEADER_SIZE : len(stored) - 4 * row_count], "q")
        directory = [
            words[column * partition_count : (column + 1) * partition_count]
            for column in range(column_count)
        ]
        self._partitions, self._first_rows, self._row_counts = directory[:3]
        self._last_offsets, self._last_positions, self._last_sizes = directory[3:6]
        self._byte_counts, self._timestamp_maxima = directory[6:8]
        self._checksums = directory[8] if header.format == 2 else None
        self._checked: set[int] = set()
        """Entries whose rows have proved whole."""
        rows = words[column_count * partition_count :]
        self._base_offsets = rows[:row_count]
        self._positions = rows[row_count : 2 * row_count]
        self._timestamps = rows[2 * row_count :]
        self._sizes = _cast(stored[len(stored) - 4 * row_count :], "i")

    def entry(self, partition: int) -> int:
        return find_entry(self._partitions, partition)

    def last_offset(self, entry: int) -> int:
        return self._last_offsets[entry]

    def byte_count(self, entry: int) -> int:
        return self._byte_counts[entry]

    def timestamp_max(self, entry: int) -> int:
        return self._timestamp_maxima[entry]

    def aborted_count(self, entry: int) -> int:
        return 0

    def stretch(self, entry: int) -> Stretch | None:
        first: int = self._first_rows[entry]
        stop = first + self._row_counts[entry]
        if first == stop:
            return None
        columns = (self._base_offsets, self._positions, self._timestamps, self._sizes)
        if self._checksums is not None and entry not in self._checked:
            checksum = 0
            for column in columns:
                checksum = crc32c(column[first:stop].cast("B"), checksum)
            if checksum != self._checksums[entry]:
                raise wrong_checksum(self._name)
            self._checked.add(entry)
        return Stretch(*columns, (), (), first, stop)

    def aborted_from(self, entry: int, offset: int) -> Iterator[AbortedIndex]:
        return iter(())

    def directory(self) -> Directory:
        columns = (
            self._partitions,
            self._last_offsets,
            self._last_positions,
            self._last_sizes,
            self._byte_counts,
            self._timestamp_maxima,
        )
        count = len(self._partitions)
        copies = [array("q", column.tobytes()) for column in columns]
        return Directory([*copies, array("q", bytes(8 * count))])

    def restored(self) -> tuple[Directory, dict[int, Rows]]:
        """As of an index in today's format."""
        directory = self.directory()
        found: dict[int, Rows] = {}
        for entry, partition in enumerate(directory.partitions):
            stretch = self.stretch(entry)
            if stretch is not None:
                found[partition] = restored_rows(stretch, directory, entry, ())
        return directory, found


def _cast(view: memoryview, kind: Literal["i", "q"]) -> memoryview:
    return view.cast(kind) if view else memoryview(array(kind))


AnySealedIndex = SealedIndex | SealedIndexBefore


def open_index(pages: Pages, name: str) -> AnySealedIndex:
    """Raises NotLoaded, CorruptJournal, OSError."""

    def check(stored: Buffer) -> None:
        if read_header(stored) is None:
            raise damaged(name, "this is no batch index")

    header = read_header(pages.get(name, 0, HEADER_SIZE, check).plain)
    assert header is not None
    if header.has_pages:
        return SealedIndex(pages, name, header)
    stored = pages.get(name, 0, header.size, lambda stored: None).plain
    return SealedIndexBefore(stored, name, header)


def read_index(stored: Buffer, name: str) -> AnySealedIndex:
    """Of bytes that are at hand."""

    def read_now(name: str, offset: int, size: int) -> Buffer:
        return stored[offset : offset + size]

    header = read_header(stored[:HEADER_SIZE])
    if header is None or header.size != len(stored):
        raise CorruptJournal(f"{name}: this is no batch index")
    return open_index(Pages(read_now, bytes_max=2 * len(stored)), name)

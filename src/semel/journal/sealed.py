"""The batch index of one sealed segment, as bytes: a directory of partitions, then columns of rows.

    header | the directory's columns | base offsets | positions | timestamps | sizes

The directory names every partition known when the segment was sealed, with rows in it or not. So
the segments can be searched by halving: each tells where any partition stood at its end. Numbers
have the machine's byte order, since they are read in place; a foreign file fails its checksum and
is built again by replay.

The directory is checked when the index is mapped, a partition's rows when they are looked at, so
that a search reads what it needs and not the whole file. Format 1 has one checksum over all.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from semel.errors import CorruptJournal
from semel.records.checksum import crc32c

_HEADER: Final = struct.Struct("=8sIIQQQ")
_MAGIC: Final = b"SEMELIX1"
_HEADER_CHECKSUM: Final = struct.Struct("=II")
HEADER_SIZE: Final = _HEADER.size + _HEADER_CHECKSUM.size
_FORMAT: Final = 2
_COLUMN_COUNTS: Final = {1: 8, _FORMAT: 9}
_ROW_SIZE: Final = 8 + 8 + 8 + 4
TIMESTAMP_MIN: Final = -(2**63)
NO_ENTRY: Final = -1


class Location(NamedTuple):
    """A stored batch."""

    base_offset: int
    position: int
    size: int


class Rows:
    """The batches of one partition in one segment, and where it stood before them."""

    __slots__ = (
        "base_offsets",
        "earlier_byte_count",
        "last",
        "positions",
        "sizes",
        "timestamp_max",
        "timestamps",
    )

    def __init__(self) -> None:
        self.base_offsets = array("q")
        self.positions = array("q")
        self.timestamps = array("q")
        self.sizes = array("i")
        self.earlier_byte_count = 0
        self.timestamp_max = TIMESTAMP_MIN
        self.last: Location | None = None
        """The last batch before these rows, if there are no rows."""

    def byte_count(self) -> int:
        return self.earlier_byte_count + sum(self.sizes)

    def newest(self) -> Location | None:
        if not self.base_offsets:
            return self.last
        return Location(self.base_offsets[-1], self.positions[-1], self.sizes[-1])

    def successor(self) -> "Rows":
        """Empty rows for the next segment."""
        rows = Rows()
        rows.earlier_byte_count = self.byte_count()
        rows.timestamp_max = self.timestamp_max
        rows.last = self.newest()
        return rows


def encode(partitions: Mapping[int, Rows], base: int, end: int) -> bytes:
    """The rows of the segment [base, end)."""
    directory = [array("q") for _ in range(_COLUMN_COUNTS[_FORMAT])]
    columns: list[list[bytes]] = [[], [], [], []]
    row_count = 0
    for partition in sorted(partitions):
        rows = partitions[partition]
        last = rows.newest()
        if last is None:
            continue
        its_columns = (rows.base_offsets, rows.positions, rows.timestamps, rows.sizes)
        checksum = 0
        for column, its_column in zip(columns, its_columns, strict=True):
            stored = its_column.tobytes()
            checksum = crc32c(stored, checksum)
            column.append(stored)
        fields = (
            *(partition, row_count, len(rows.base_offsets)),
            *last,
            *(rows.byte_count(), rows.timestamp_max, checksum),
        )
        for entries, field in zip(directory, fields, strict=True):
            entries.append(field)
        row_count += len(rows.base_offsets)
    summary = b"".join(entries.tobytes() for entries in directory)
    header = _HEADER.pack(_MAGIC, _FORMAT, len(directory[0]), row_count, base, end)
    header += struct.pack("=I", crc32c(summary))
    header += struct.pack("=I", crc32c(header))
    return b"".join((header, summary, *(part for parts in columns for part in parts)))


def covers(header: bytes, size: int, base: int, end: int) -> bool:
    """True if these first bytes are those of a whole index of [base, end), `size` bytes long."""
    if len(header) < HEADER_SIZE:
        return False
    magic, format_, partition_count, row_count, its_base, its_end = _HEADER.unpack_from(header)
    _, checksum = _HEADER_CHECKSUM.unpack_from(header, _HEADER.size)
    return (
        magic == _MAGIC
        and checksum == crc32c(header[: HEADER_SIZE - 4])
        and (its_base, its_end) == (base, end)
        and format_ in _COLUMN_COUNTS
        and size == _size(format_, partition_count, row_count)
    )


class SealedIndex:
    """Reads an encoded index in place.

    A partition's entry tells which rows are its own, and where it stood at the end of the segment,
    which need not hold any of its batches.
    """

    def __init__(self, stored: memoryview, name: str) -> None:
        if len(stored) < HEADER_SIZE:
            raise CorruptJournal(f"{name}: the header is cut at {len(stored)} bytes")
        _, format_, partition_count, row_count, base, end = _HEADER.unpack_from(stored)
        checksum, _ = _HEADER_CHECKSUM.unpack_from(stored, _HEADER.size)
        if not covers(bytes(stored[:HEADER_SIZE]), len(stored), base, end):
            raise CorruptJournal(f"{name}: this is no batch index; the next start builds it again")
        column_count = _COLUMN_COUNTS[format_]
        checked = stored[HEADER_SIZE:]
        if format_ == _FORMAT:
            checked = checked[: column_count * partition_count * 8]
        if checksum != crc32c(checked):
            raise _wrong_checksum(name)
        self.base = base
        self.end = end
        self._name = name
        words = _cast(stored[HEADER_SIZE : len(stored) - 4 * row_count], "q")
        directory = [
            words[column * partition_count : (column + 1) * partition_count]
            for column in range(column_count)
        ]
        self._partitions, self._first_rows, self._row_counts = directory[:3]
        self.last_offsets, self._last_positions, self._last_sizes = directory[3:6]
        self._byte_counts, self.timestamp_maxima = directory[6:8]
        self._checksums = directory[8] if format_ == _FORMAT else None
        self._checked: set[int] = set()
        """Entries whose rows have proved whole."""
        rows = words[column_count * partition_count :]
        self.base_offsets = rows[:row_count]
        self.positions = rows[row_count : 2 * row_count]
        self.timestamps = rows[2 * row_count :]
        self.sizes = _cast(stored[len(stored) - 4 * row_count :], "i")

    def partitions(self) -> list[int]:
        return self._partitions.tolist()

    def entry(self, partition: int) -> int:
        """NO_ENTRY if the partition had no batch when the segment ended."""
        partitions = self._partitions
        entry = bisect_left(partitions, partition)
        return entry if entry < len(partitions) and partitions[entry] == partition else NO_ENTRY

    def rows_of(self, entry: int) -> tuple[int, int]:
        """Where its rows begin and end. Raises CorruptJournal if they are not what was written."""
        first: int = self._first_rows[entry]
        stop = first + self._row_counts[entry]
        if self._checksums is not None and entry not in self._checked:
            checksum = 0
            for column in (self.base_offsets, self.positions, self.timestamps, self.sizes):
                checksum = crc32c(column[first:stop].cast("B"), checksum)
            if checksum != self._checksums[entry]:
                raise _wrong_checksum(self._name)
            self._checked.add(entry)
        return first, stop

    def last(self, entry: int) -> Location:
        return Location(
            self.last_offsets[entry], self._last_positions[entry], self._last_sizes[entry]
        )

    def rows(self, partition: int) -> Rows:
        """A copy that can grow: the segment is open again."""
        entry = self.entry(partition)
        assert entry != NO_ENTRY
        rows = Rows()
        chosen = slice(*self.rows_of(entry))
        rows.base_offsets.frombytes(self.base_offsets[chosen].tobytes())
        rows.positions.frombytes(self.positions[chosen].tobytes())
        rows.timestamps.frombytes(self.timestamps[chosen].tobytes())
        rows.sizes.frombytes(self.sizes[chosen].tobytes())
        rows.earlier_byte_count = self._byte_counts[entry] - sum(rows.sizes)
        rows.timestamp_max = self.timestamp_maxima[entry]
        rows.last = self.last(entry)
        return rows


def _cast(view: memoryview, kind: Literal["i", "q"]) -> memoryview:
    return view.cast(kind) if view else memoryview(array(kind))


def _size(format_: int, partition_count: int, row_count: int) -> int:
    return HEADER_SIZE + partition_count * _COLUMN_COUNTS[format_] * 8 + row_count * _ROW_SIZE


def _wrong_checksum(name: str) -> CorruptJournal:
    return CorruptJournal(f"{name}: wrong checksum; without the file, a start builds it again")

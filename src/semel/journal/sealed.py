"""The batch index of one sealed segment, as bytes: a directory of partitions, then columns of rows.

    header | a column per field of `Summary` | base offsets | positions | timestamps | sizes

The directory names every partition known when the segment was sealed, with rows in it or not. So
the segments can be searched by halving: each tells where any partition stood at its end. Numbers
have the machine's byte order, since they are read in place; a foreign file fails its checksum and
is built again by replay.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from typing import Literal, NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from semel.errors import CorruptJournal

_HEADER = struct.Struct("=8sIIQQQ")
_MAGIC = b"SEMELIX1"
_HEADER_CHECKSUM = struct.Struct("=II")
HEADER_SIZE = _HEADER.size + _HEADER_CHECKSUM.size
_COLUMN_COUNT = 8
_ROW_SIZE = 8 + 8 + 8 + 4
TIMESTAMP_MIN = -(2**63)


class Location(NamedTuple):
    """A stored batch."""

    base_offset: int
    position: int
    size: int


class Summary(NamedTuple):
    """Where a partition stands at the end of a segment, which need not hold any of its batches."""

    first_row: int
    row_count: int
    last: Location
    byte_count: int
    timestamp_max: int


class Rows:
    """The batches of one partition in one segment, and the partition's summary before them."""

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
    directory = [array("q") for _ in range(_COLUMN_COUNT)]
    columns: list[list[bytes]] = [[], [], [], []]
    row_count = 0
    for partition in sorted(partitions):
        rows = partitions[partition]
        last = rows.newest()
        if last is None:
            continue
        fields = (
            *(partition, row_count, len(rows.base_offsets)),
            *last,
            *(rows.byte_count(), rows.timestamp_max),
        )
        for column, field in zip(directory, fields, strict=True):
            column.append(field)
        row_count += len(rows.base_offsets)
        columns[0].append(rows.base_offsets.tobytes())
        columns[1].append(rows.positions.tobytes())
        columns[2].append(rows.timestamps.tobytes())
        columns[3].append(rows.sizes.tobytes())
    body = b"".join(
        [
            *(column.tobytes() for column in directory),
            *(part for parts in columns for part in parts),
        ]
    )
    header = _HEADER.pack(_MAGIC, 1, len(directory[0]), row_count, base, end)
    header += struct.pack("=I", crc32c(body))
    return header + struct.pack("=I", crc32c(header)) + body


def covers(header: bytes, size: int, base: int, end: int) -> bool:
    """True if these first bytes are those of a whole index of [base, end), `size` bytes long."""
    if len(header) < HEADER_SIZE:
        return False
    magic, _, partition_count, row_count, its_base, its_end = _HEADER.unpack_from(header)
    _, checksum = _HEADER_CHECKSUM.unpack_from(header, _HEADER.size)
    return (
        magic == _MAGIC
        and checksum == crc32c(header[: HEADER_SIZE - 4])
        and (its_base, its_end) == (base, end)
        and size == _size(partition_count, row_count)
    )


class SealedIndex:
    """Reads an encoded index in place."""

    def __init__(self, stored: memoryview, name: str) -> None:
        if len(stored) < HEADER_SIZE:
            raise CorruptJournal(f"{name}: the header is cut at {len(stored)} bytes")
        _, _, partition_count, row_count, base, end = _HEADER.unpack_from(stored)
        checksum, _ = _HEADER_CHECKSUM.unpack_from(stored, _HEADER.size)
        if not covers(bytes(stored[:HEADER_SIZE]), len(stored), base, end):
            raise CorruptJournal(f"{name}: this is no batch index; the next start builds it again")
        if checksum != crc32c(stored[HEADER_SIZE:]):
            raise CorruptJournal(
                f"{name}: wrong checksum; without the file, a start builds it again"
            )
        self.base = base
        self.end = end
        words = _cast(stored[HEADER_SIZE : len(stored) - 4 * row_count], "q")
        self._directory = [
            words[column * partition_count : (column + 1) * partition_count]
            for column in range(_COLUMN_COUNT)
        ]
        rows = words[_COLUMN_COUNT * partition_count :]
        self.base_offsets = rows[:row_count]
        self.positions = rows[row_count : 2 * row_count]
        self.timestamps = rows[2 * row_count :]
        self.sizes = _cast(stored[len(stored) - 4 * row_count :], "i")

    def partitions(self) -> list[int]:
        return self._directory[0].tolist()

    def summary(self, partition: int) -> Summary | None:
        """None if the partition had no batch when the segment ended."""
        partitions = self._directory[0]
        place = bisect_left(partitions, partition)
        if place == len(partitions) or partitions[place] != partition:
            return None
        _, first_row, row_count, base_offset, position, size, byte_count, timestamp_max = (
            column[place] for column in self._directory
        )
        last = Location(base_offset, position, size)
        return Summary(first_row, row_count, last, byte_count, timestamp_max)

    def rows(self, partition: int) -> Rows:
        """A copy that can grow: the segment is open again."""
        summary = self.summary(partition)
        assert summary is not None
        rows = Rows()
        chosen = slice(summary.first_row, summary.first_row + summary.row_count)
        rows.base_offsets.frombytes(self.base_offsets[chosen].tobytes())
        rows.positions.frombytes(self.positions[chosen].tobytes())
        rows.timestamps.frombytes(self.timestamps[chosen].tobytes())
        rows.sizes.frombytes(self.sizes[chosen].tobytes())
        rows.earlier_byte_count = summary.byte_count - sum(rows.sizes)
        rows.timestamp_max = summary.timestamp_max
        rows.last = summary.last
        return rows


def _cast(view: memoryview, kind: Literal["i", "q"]) -> memoryview:
    return view.cast(kind) if view else memoryview(array(kind))


def _size(partition_count: int, row_count: int) -> int:
    return HEADER_SIZE + partition_count * _COLUMN_COUNT * 8 + row_count * _ROW_SIZE

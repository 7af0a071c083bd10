"""The batch index of one segment, as bytes: a directory of partitions, then a block for each.

    header | a checksum for each page | the directory's columns | blocks

The directory names every partition known when the segment was sealed, with rows in it or not. So
the segments can be searched by halving: each tells where any partition stood at its end. A block
has the rows of one partition, and the transactions that were aborted by markers among them:

    row count | aborted count | base offsets | positions | timestamps | sizes
    | last offset deltas | aborted columns | sums of sizes

Numbers have the machine's byte order, since they are read in place; a foreign file fails its
checksum, and is built again once it is removed. What is read is checked by the page, so that a
lookup reads and checks what it needs, and no more of it the larger the file is.

The sums are of all rows up to each 256th: who counts bytes adds few sizes to one of them, however
many rows there are.

Format 4 has no such sums, format 3 no last offset deltas either. Formats 1 and 2 also have no pages
and no aborted transactions (`journal/index_files.py`).
"""

import struct
from array import array
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from semel.errors import CorruptJournal, NewerFormat
from semel.journal.pages import PAGE_SIZE, WORDS_PER_PAGE, Column, HalfColumn, Page, Pages, damaged
from semel.journal.rows import (
    COLUMN_COUNT,
    NO_SLOT,
    ROWS_PER_SUM,
    UNKNOWN_DELTA,
    Directory,
    Location,
    Rows,
    Standing,
)
from semel.journal.stretch import Numbers, Stretch, copied, find_row
from semel.log.transactions import AbortedIndex
from semel.records.checksum import crc32c
from semel.types import Buffer

_HEADER: Final = struct.Struct("=8sIIQQQ")
_MAGIC: Final = b"SEMELIX1"
_CHECKSUMS: Final = struct.Struct("=II")
HEADER_SIZE: Final = _HEADER.size + _CHECKSUMS.size
FORMAT: Final = 5
FORMAT_WITHOUT_SUMS: Final = 4
FORMAT_WITHOUT_DELTAS: Final = 3
COLUMN_COUNTS_BEFORE: Final = {1: 8, 2: 9}
"""Of the directory, in the formats that are only read."""
ROW_SIZE_BEFORE: Final = 8 + 8 + 8 + 4
NO_ENTRY: Final = -1
NO_BLOCK: Final = -1

PARTITIONS: Final = 0
LAST_OFFSETS: Final = 1
LAST_POSITIONS: Final = 2
LAST_SIZES: Final = 3
BYTE_COUNTS: Final = 4
TIMESTAMP_MAXIMA: Final = 5
ABORTED_COUNTS: Final = 6
BLOCKS: Final = 7
"""Columns of the directory, in their order; the blocks are the file's alone."""
_BLOCK_HEAD: Final = 2
"""Words."""

PARTITIONS_AT_ONCE: Final = 128
PARTS_PER_BLOCK: Final = 6
ROWS_AT_ONCE: Final = 16 * 1024
PAGES_AT_ONCE: Final = 64
"""What is encoded in one go takes about a millisecond."""
ABORTED_AT_ONCE: Final = 128
"""Taken out of pages."""


class Header(NamedTuple):
    format: int
    partition_count: int
    length: int
    """Words behind the checksums; in the formats before, rows."""
    base: int
    end: int
    checksum: int
    """Of the pages' checksums; in the formats before, of the directory or of all."""

    @property
    def has_pages(self) -> bool:
        return self.format >= FORMAT_WITHOUT_DELTAS

    @property
    def size(self) -> int:
        """Of the whole file."""
        if self.has_pages:
            return self.body_start + 8 * self.length
        columns_size = 8 * COLUMN_COUNTS_BEFORE[self.format] * self.partition_count
        return HEADER_SIZE + columns_size + self.length * ROW_SIZE_BEFORE

    @property
    def directory_size(self) -> int:
        return 8 * (COLUMN_COUNT + 1) * self.partition_count

    @property
    def body_start(self) -> int:
        directory_size = self.directory_size
        count = page_count(directory_size) + page_count(8 * self.length - directory_size)
        return HEADER_SIZE + 8 * -(-count // 2)


def read_header(stored: Buffer) -> Header | None:
    """None if these first bytes are not those of an index. Raises NewerFormat."""
    if len(stored) < HEADER_SIZE:
        return None
    magic, format_, partition_count, count, base, end = _HEADER.unpack_from(stored)
    checksum, header_checksum = _CHECKSUMS.unpack_from(stored, _HEADER.size)
    if magic != _MAGIC or header_checksum != crc32c(stored[: HEADER_SIZE - 4]):
        return None
    if format_ > FORMAT:
        raise NewerFormat(f"a batch index has format {format_}, this Semel reads up to {FORMAT}")
    if not format_:
        return None
    return Header(format_, partition_count, count, base, end, checksum)


def pack_header(header: Header) -> bytes:
    packed = _HEADER.pack(
        _MAGIC, header.format, header.partition_count, header.length, header.base, header.end
    )
    packed += struct.pack("=I", header.checksum)
    return packed + struct.pack("=I", crc32c(packed))


def encode(
    before: Directory,
    rows_by_partition: Mapping[int, Rows],
    dropped: Collection[int],
    base: int,
    end: int,
) -> Generator[None, None, tuple[Directory, bytearray]]:
    """The index of [base, end), and the directory at its end; in steps of about a millisecond.

    `before` is the directory at `base`, `rows_by_partition` has the rows of its segment, also
    those behind `end`, and `dropped` are partitions that were deleted before `end`.
    """
    chosen = array("q")
    new: list[int] = []
    for number, partition in enumerate(list(rows_by_partition), 1):
        if rows_by_partition[partition].count_before(end) and partition not in dropped:
            chosen.append(partition)
            if before.slot(partition) == NO_SLOT:
                new.append(partition)
        if number % PARTITIONS_AT_ONCE == 0:
            yield
    new.sort()
    directory = yield from before.successor(new, dropped)
    blocks = array("q", [NO_BLOCK]) * len(directory)
    pieces: list[bytes] = []
    parts: list[bytes] = []
    word = row_count = 0
    for partition in chosen:
        rows = rows_by_partition[partition]
        count = rows.count_before(end)
        slot = directory.slot(partition)
        sums = yield from _size_sums(rows.sizes, count)
        directory.put(slot, _standing(rows, count, sums))
        blocks[slot] = word
        word += _add_block(parts, rows, count, sums)
        row_count += count
        if len(parts) >= PARTS_PER_BLOCK * PARTITIONS_AT_ONCE or row_count >= ROWS_AT_ONCE:
            pieces.append(b"".join(parts))
            parts = []
            row_count = 0
            yield
    pieces.append(b"".join(parts))
    columns = (*directory.columns(), blocks)
    length = word + len(columns) * len(directory)
    header = Header(FORMAT, len(directory), length, base, end, 0)
    content = bytearray(header.size)
    if len(directory):
        summary = [memoryview(column).cast("B") for column in columns]
        yield from _write(content, header.body_start, (*summary, *pieces))
    yield from _write_head(content, header)
    return directory, content


def _write(content: bytearray, start: int, pieces: Sequence[Buffer]) -> Iterator[None]:
    yielded_at = start
    for piece in pieces:
        content[start : start + len(piece)] = piece
        start += len(piece)
        if start - yielded_at > PAGES_AT_ONCE * PAGE_SIZE:
            yielded_at = start
            yield


def _write_head(content: bytearray, header: Header) -> Iterator[None]:
    """When all behind it is there."""
    directory_end = header.body_start + header.directory_size
    checksums = array("I")
    # Blocks begin with a page of their own, so that damage to one hides nothing but blocks.
    for start, end in ((header.body_start, directory_end), (directory_end, header.size)):
        for number, page_start in enumerate(range(start, end, PAGE_SIZE), 1):
            page_end = min(page_start + PAGE_SIZE, end)
            checksums.append(crc32c(memoryview(content)[page_start:page_end]))
            if number % PAGES_AT_ONCE == 0:
                yield
    if len(checksums) % 2:
        checksums.append(0)
    table = checksums.tobytes()
    content[: header.body_start] = pack_header(header._replace(checksum=crc32c(table))) + table


def _size_sums(sizes: "array[int]", count: int) -> Generator[None, None, "array[int]"]:
    """Of the first `count` rows."""
    sums = array("q")
    total = 0
    for end in range(ROWS_PER_SUM, count + 1, ROWS_PER_SUM):
        total += sum(sizes[end - ROWS_PER_SUM : end])
        sums.append(total)
        if end % ROWS_AT_ONCE == 0:
            yield
    return sums


def _standing(rows: Rows, count: int, sums: "array[int]") -> Standing:
    """Behind the first `count` rows."""
    size = sum(rows.sizes[len(sums) * ROWS_PER_SUM : count])
    if sums:
        size += sums[-1]
    return Standing(
        Location(rows.base_offsets[count - 1], rows.positions[count - 1], rows.sizes[count - 1]),
        rows.earlier_byte_count + size,
        rows.timestamps[count - 1],
        rows.earlier_aborted_count + rows.aborted_count_before(count),
    )


def _add_block(parts: list[bytes], rows: Rows, count: int, sums: "array[int]") -> int:
    """Gives its size in words."""
    aborted_count = rows.aborted_count_before(count)
    parts.append(array("q", (count, aborted_count)).tobytes())
    columns = (rows.base_offsets, rows.positions, rows.timestamps)
    parts.extend(column[:count].tobytes() for column in columns)
    padding = bytes(4 * (count % 2))
    parts.append(rows.sizes[:count].tobytes() + padding)
    parts.append(rows.last_offset_deltas[:count].tobytes() + padding)
    if rows.aborted is not None:
        parts.extend(column[:aborted_count].tobytes() for column in rows.aborted.columns())
    if sums:
        parts.append(sums.tobytes())
    row_words = 3 * count + 2 * _words_of_halves(count)
    return _BLOCK_HEAD + row_words + 4 * aborted_count + len(sums)


def _words_of_halves(count: int) -> int:
    return (count + 1) // 2


class SegmentIndex(Protocol):
    """What a segment that is sealed tells of a partition, from memory or from its file.

    Each raises NotLoaded, CorruptJournal and OSError if it is read from a file.
    """

    def entry(self, partition: int) -> int:
        """NO_ENTRY if the partition had no batch when the segment ended."""

    def last_offset(self, entry: int) -> int:
        """The base offset of its last batch, in this segment or before."""

    def byte_count(self, entry: int) -> int:
        """Of all its batches up to the end of this segment, with those that are gone."""

    def timestamp_max(self, entry: int) -> int: ...

    def aborted_count(self, entry: int) -> int:
        """Of all segments up to this."""

    def stretch(self, entry: int) -> Stretch | None:
        """Its rows, if there are any in this segment."""

    def aborted_from(self, entry: int, offset: int) -> Iterator[AbortedIndex]:
        """Those whose markers lie in this segment, at or behind the offset."""


class SealedIndex:
    """Reads what `encode` gave, by the page."""

    def __init__(self, pages: Pages, name: str, header: Header) -> None:
        self.base = header.base
        self.end = header.end
        self._header = header
        self._has_deltas = header.format > FORMAT_WITHOUT_DELTAS
        self._has_sums = header.format > FORMAT_WITHOUT_SUMS
        checksums = _read_checksums(pages, name, header)
        start, size, count = header.body_start, header.directory_size, header.partition_count
        self._count = count
        self._directory = _Section(pages, name, start, size, checksums[: page_count(size)])
        self._columns: list[Numbers | None] = [None] * (COLUMN_COUNT + 1)
        """Of the directory, those that were looked at."""
        self._blocks = _Section(
            pages, name, start + size, 8 * header.length - size, checksums[page_count(size) :]
        )

    def _column(self, number: int) -> Numbers:
        column = self._columns[number]
        if column is None:
            column = self._directory.numbers(number * self._count, self._count)
            self._columns[number] = column
        return column

    def entry(self, partition: int) -> int:
        return find_entry(self._column(PARTITIONS), partition)

    def last_offset(self, entry: int) -> int:
        return self._column(LAST_OFFSETS)[entry]

    def byte_count(self, entry: int) -> int:
        return self._column(BYTE_COUNTS)[entry]

    def timestamp_max(self, entry: int) -> int:
        return self._column(TIMESTAMP_MAXIMA)[entry]

    def aborted_count(self, entry: int) -> int:
        return self._column(ABORTED_COUNTS)[entry]

    def stretch(self, entry: int) -> Stretch | None:
        word = self._column(BLOCKS)[entry]
        if word == NO_BLOCK:
            return None
        blocks = self._blocks
        head = blocks.numbers(word, _BLOCK_HEAD)
        count = head[0]
        start = word + _BLOCK_HEAD
        row_words = self._row_words(count)
        deltas = self._deltas(start + 3 * count + _words_of_halves(count), count)
        size_sums = self._size_sums(start + row_words + 4 * head[1], count // ROWS_PER_SUM)
        number, first = divmod(start, WORDS_PER_PAGE)
        if count > 0 and first + row_words <= WORDS_PER_PAGE:
            # As most are, of which very many may be asked for at once.
            page = blocks.page(number)
            words, halves, half = page.words, page.halves, 2 * (first + 3 * count)
            return Stretch(
                words[first : first + count],
                words[first + count : first + 2 * count],
                words[first + 2 * count : first + 3 * count],
                halves[half : half + count],
                deltas,
                size_sums,
                0,
                count,
            )
        return Stretch(
            blocks.numbers(start, count),
            blocks.numbers(start + count, count),
            blocks.numbers(start + 2 * count, count),
            blocks.halves(start + 3 * count, count),
            deltas,
            size_sums,
            0,
            count,
        )

    def _row_words(self, count: int) -> int:
        return 3 * count + (2 if self._has_deltas else 1) * _words_of_halves(count)

    def _deltas(self, start: int, count: int) -> Numbers:
        return self._blocks.halves(start, count) if self._has_deltas else ()

    def _size_sums(self, start: int, count: int) -> Numbers:
        # Most lookups count nothing: their page is read only by who does.
        return Column(self._blocks.page, start, count) if self._has_sums and count else ()

    def aborted_from(self, entry: int, offset: int) -> Iterator[AbortedIndex]:
        word = self._column(BLOCKS)[entry]
        if word == NO_BLOCK:
            return
        blocks = self._blocks
        head = blocks.numbers(word, _BLOCK_HEAD)
        row_count, count = head[0], head[1]
        start = word + _BLOCK_HEAD + self._row_words(row_count)
        columns = [blocks.numbers(start + number * count, count) for number in range(4)]
        for first in range(find_row(columns[2], offset, 0, count), count, ABORTED_AT_ONCE):
            stop = min(first + ABORTED_AT_ONCE, count)
            yield AbortedIndex([copied(column, first, stop) for column in columns])

    def directory(self) -> Directory:
        """Where every partition stood at the end."""
        columns = map(self._column, range(COLUMN_COUNT))
        return Directory([copied(column, 0, self._count) for column in columns])

    def restored(self) -> tuple[Directory, dict[int, Rows]]:
        """All of it: the directory, and copies of the rows that can grow, as the segment is open
        again."""
        directory = self.directory()
        found: dict[int, Rows] = {}
        for entry, partition in enumerate(directory.partitions):
            stretch = self.stretch(entry)
            if stretch is not None:
                aborted = list(self.aborted_from(entry, 0))
                found[partition] = restored_rows(stretch, directory, entry, aborted)
        return directory, found


class _Section:
    """Pages with their checksums, one behind the other."""

    def __init__(
        self, pages: Pages, name: str, start: int, size: int, checksums: "array[int]"
    ) -> None:
        self._pages = pages
        self._name = name
        self._start = start
        self._size = size
        self._checksums = checksums
        self._last: tuple[int, Page] | None = None
        """A small index has only one."""

    def numbers(self, start: int, count: int) -> Numbers:
        """From a word on. Within one page they are at hand, which most are."""
        number, word = divmod(start, WORDS_PER_PAGE)
        if count and word + count <= WORDS_PER_PAGE:
            return self.page(number).words[word : word + count]
        return Column(self.page, start, count)

    def halves(self, start: int, count: int) -> Numbers:
        number, word = divmod(start, WORDS_PER_PAGE)
        if count and 2 * word + count <= 2 * WORDS_PER_PAGE:
            return self.page(number).halves[2 * word : 2 * word + count]
        return HalfColumn(self.page, start, count)

    def page(self, number: int) -> Page:
        last = self._last
        if last is not None and last[0] == number:
            return last[1]
        start = number * PAGE_SIZE

        def check(stored: Buffer) -> None:
            if crc32c(stored) != self._checksums[number]:
                raise wrong_checksum(self._name)

        size = min(PAGE_SIZE, self._size - start)
        page = self._pages.get(self._name, self._start + start, size, check)
        self._last = (number, page)
        return page


def _read_checksums(pages: Pages, name: str, header: Header) -> "array[int]":
    def check(stored: Buffer) -> None:
        if crc32c(stored) != header.checksum:
            raise wrong_checksum(name)

    checksums = array("I")
    size = header.body_start - HEADER_SIZE
    if size:
        checksums.frombytes(pages.get(name, HEADER_SIZE, size, check).plain)
    return checksums


def page_count(size: int) -> int:
    return -(-size // PAGE_SIZE)


def restored_rows(
    stretch: Stretch, directory: Directory, slot: int, aborted: Sequence[AbortedIndex]
) -> Rows:
    rows = Rows(None)
    first, stop = stretch.first, stretch.stop
    rows.base_offsets = copied(stretch.base_offsets, first, stop)
    rows.positions = copied(stretch.positions, first, stop)
    rows.timestamps = copied(stretch.timestamps, first, stop)
    rows.sizes = copied(stretch.sizes, first, stop)
    if len(stretch.last_offset_deltas):
        rows.last_offset_deltas = copied(stretch.last_offset_deltas, first, stop)
    else:
        rows.last_offset_deltas = array("i", [UNKNOWN_DELTA]) * (stop - first)
    for piece in aborted:
        rows.aborted = rows.aborted or AbortedIndex()
        rows.aborted.extend(piece)
    rows.timestamp_max = directory.timestamp_maxima[slot]
    rows.byte_count = directory.byte_counts[slot]
    rows.earlier_byte_count = rows.byte_count - sum(rows.sizes)
    aborted_count = 0 if rows.aborted is None else len(rows.aborted)
    rows.earlier_aborted_count = directory.aborted_counts[slot] - aborted_count
    return rows


def find_entry(partitions: Numbers, partition: int) -> int:
    entry = find_row(partitions, partition, 0, len(partitions))
    return entry if entry < len(partitions) and partitions[entry] == partition else NO_ENTRY


def wrong_checksum(name: str) -> CorruptJournal:
    return damaged(name, "wrong checksum")

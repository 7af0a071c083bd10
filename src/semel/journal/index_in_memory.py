"""What is told of a segment that is sealed from the rows it had when it was open.

So sealing a segment moves nothing, however many partitions there are; its file is encoded in small
steps beside other work.
"""

from collections.abc import Generator, Iterator, Sequence

from semel.journal import sealed
from semel.journal.rows import NO_SLOT, Directory, Rows, Standing
from semel.journal.sealed import NO_ENTRY
from semel.journal.stretch import Stretch, stretch_of
from semel.log.transactions import AbortedIndex


class IndexInMemory:
    """A sealed segment whose index file is not there yet, or not needed yet."""

    def __init__(
        self,
        base: int,
        end: int,
        rows: dict[int, Rows],
        dropped: Sequence[int],
        before: "IndexInMemory | Directory",
    ) -> None:
        self.base = base
        self.end = end
        self.rows = rows
        self.dropped = dropped
        self.before = before
        """Where the partitions stood that have no rows here."""
        self.directory: Directory | None = None
        """Where all stood at the end, once that is encoded."""

    def encode(self) -> Generator[None, None, bytearray]:
        before = yield from directory_of(self.before)
        self.directory, content = yield from sealed.encode(
            before, self.rows, frozenset(self.dropped), self.base, self.end
        )
        return content

    def newest(self, partition: int) -> Rows | tuple[Directory, int]:
        """Where it is told how far the partition had come; NO_SLOT if it had no batch."""
        index: IndexInMemory | Directory = self
        while isinstance(index, IndexInMemory):
            rows = index.rows.get(partition)
            if rows is not None:
                return rows
            index = index.before
        return index, index.slot(partition)

    def standing(self, partition: int) -> Standing | None:
        newest = self.newest(partition)
        if isinstance(newest, Rows):
            return newest.standing()
        return newest[0].standing(partition)

    # An entry is the partition's number.

    def entry(self, partition: int) -> int:
        newest = self.newest(partition)
        is_known = isinstance(newest, Rows) or newest[1] != NO_SLOT
        return partition if is_known else NO_ENTRY

    def last_offset(self, entry: int) -> int:
        newest = self.newest(entry)
        if isinstance(newest, Rows):
            return newest.base_offsets[-1]
        return newest[0].last_offsets[newest[1]]

    def byte_count(self, entry: int) -> int:
        newest = self.newest(entry)
        if isinstance(newest, Rows):
            return newest.byte_count
        return newest[0].byte_counts[newest[1]]

    def timestamp_max(self, entry: int) -> int:
        newest = self.newest(entry)
        if isinstance(newest, Rows):
            return newest.timestamp_max
        return newest[0].timestamp_maxima[newest[1]]

    def aborted_count(self, entry: int) -> int:
        newest = self.newest(entry)
        if isinstance(newest, Rows):
            return newest.aborted_count()
        return newest[0].aborted_counts[newest[1]]

    def stretch(self, entry: int) -> Stretch | None:
        rows = self.rows.get(entry)
        return None if rows is None else stretch_of(rows)

    def aborted_from(self, entry: int, offset: int) -> Iterator[AbortedIndex]:
        rows = self.rows.get(entry)
        if rows is not None and rows.aborted is not None:
            yield rows.aborted


def directory_of(index: IndexInMemory | Directory) -> Generator[None, None, Directory]:
    if isinstance(index, IndexInMemory):
        if index.directory is None:
            yield from index.encode()
        assert index.directory is not None
        return index.directory
    return index


def encode_open(
    before: IndexInMemory | Directory,
    rows: dict[int, Rows],
    dropped: frozenset[int],
    base: int,
    end: int,
) -> Generator[None, None, bytearray]:
    directory = yield from directory_of(before)
    _, content = yield from sealed.encode(directory, rows, dropped, base, end)
    return content

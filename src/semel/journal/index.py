"""Where each partition's batches lie: in memory for the open segment, in files for the others.

What lives on of old segments is settled in volumes, which take their place: a volume tells the same
as the segments that it was made of, but for what is gone. Below, a segment may be a volume.

Of the open segment, the partitions written in it have rows, which are kept until the index file of
the segment is written and none of its frames is held in memory. Where all the others stand is told
by the directory of the segment before. So sealing a segment moves nothing, however many partitions
there are; its file is encoded in small steps beside other work.

Nothing is kept in memory per batch of any other segment, but pages of index files that lookups have
used. A lookup raises NotLoaded if it needs a page that only the disk has.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from semel.journal import names, sealed
from semel.journal.index_files import AnySealedIndex, open_index
from semel.journal.pages import Pages, ReadNow, damaged
from semel.journal.rows import NO_SLOT, UNKNOWN_DELTA, Directory, Location, Rows, Standing
from semel.journal.sealed import NO_ENTRY, Numbers, SegmentIndex, Stretch
from semel.log.transactions import Aborted, AbortedIndex, AbortedTransaction, in_order

INDEXES_MAX: Final = 128
"""Sealed indexes whose checksums are kept at hand."""

ROWS_CUT_MIN: Final = 16
ROWS_CUT_MAX: Final = 512
"""Rows that are taken out of pages at once; few first, as most readers want few."""


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


def directory_of(index: IndexInMemory | Directory) -> Generator[None, None, Directory]:
    if isinstance(index, IndexInMemory):
        if index.directory is None:
            yield from index.encode()
        assert index.directory is not None
        return index.directory
    return index


class Compacted(NamedTuple):
    """What compaction has left of a partition before an offset lies in a volume of its own, and is
    found nowhere else."""

    end: int
    volume: int | None
    """Where it begins; None if nothing is left."""


class BatchIndex:
    def __init__(self, read_now: ReadNow) -> None:
        self._open: dict[int, Rows] = {}
        """By partition, of those that have been written in the open segment."""
        self._dropped: list[int] = []
        """Partitions deleted in the open segment. What is encoded as of a point before that still
        has them: the deletion itself may yet be lost."""
        self._before: IndexInMemory | Directory = Directory()
        """Where all others stand."""
        self._sealed_bases = array("q")
        """Of the volumes, by the journal's order, then of the sealed segments behind them."""
        self._volume_count = 0
        self._compacted: dict[int, Compacted] = {}
        """By partition."""
        self._unpublished: dict[int, IndexInMemory] = {}
        """By base, oldest first."""
        self._published: dict[int, IndexInMemory] = {}
        """Those with frames that are held in memory, so that who reads these needs no file to find
        them. All are older than those unpublished."""
        self._not_held_to = sys.maxsize
        """No frame that begins at this position or before it is held."""
        self._pages = Pages(read_now)
        self._files: OrderedDict[int, AnySealedIndex] = OrderedDict()
        self._segment_last = 0
        """The sealed segment that was found last: who reads many partitions is often in one."""

    # The open segment.

    def add(
        self,
        partition: int,
        base_offset: int,
        position: int,
        size: int,
        max_timestamp: int,
        last_offset_delta: int = UNKNOWN_DELTA,
    ) -> None:
        try:
            rows = self._open[partition]
        except KeyError:
            rows = self._open[partition] = Rows(self._before.standing(partition))
        if max_timestamp < rows.timestamp_max:
            max_timestamp = rows.timestamp_max
        else:
            rows.timestamp_max = max_timestamp
        rows.timestamps.append(max_timestamp)
        rows.base_offsets.append(base_offset)
        rows.sizes.append(size)
        rows.last_offset_deltas.append(last_offset_delta)
        rows.byte_count += size
        # Last, since rows before a position may be counted by a thread.
        rows.positions.append(position)

    def add_aborted(self, partition: int, aborted: Aborted) -> None:
        """What the batch that was added last to this partition has ended."""
        rows = self._open[partition]
        if rows.aborted is None:
            rows.aborted = AbortedIndex()
        rows.aborted.add(aborted)

    def drop(self, partition: int) -> None:
        """The partition is deleted; its number is never used again."""
        self._compacted.pop(partition, None)
        self._dropped.append(partition)

    # For who builds it.

    @property
    def containers(self) -> list[int]:
        """Where the volumes and sealed segments begin, in the journal's order."""
        return self._sealed_bases.tolist()

    def begin(self, directory: Directory) -> None:
        """All partitions stand there. Before anything is added."""
        self._before = directory

    def count_from(self, byte_counts: Mapping[int, int]) -> None:
        """So many bytes lie before the open segment of the partitions that are written in it."""
        for partition, byte_count in byte_counts.items():
            rows = self._open.get(partition)
            if rows is not None:
                rows.byte_count += byte_count - rows.earlier_byte_count
                rows.earlier_byte_count = byte_count

    def bytes_before_open(self, partition: int) -> int | None:
        """Of all batches before the open segment, with those that are gone."""
        rows = self._open.get(partition)
        if rows is not None:
            return rows.earlier_byte_count
        standing = self._before.standing(partition)
        return None if standing is None else standing.byte_count

    # Lookups.

    def sum_up(self, partition: int) -> bool:
        """Take a step towards that no lookup which counts bytes goes through many rows; whether
        there are more. Who adds rows does not sum them up, as most are never counted."""
        sealed_rows = (
            index.rows.get(partition)
            for index in (*self._published.values(), *self._unpublished.values())
        )
        return any(
            rows is not None and rows.sum_up() for rows in (*sealed_rows, self._open.get(partition))
        )

    def bytes_from(self, partition: int, offset: int) -> int:
        """Of its batches from the one that `find` gives."""
        total = self._byte_count(partition)
        if total is None:
            return 0
        compacted = self._compacted.get(partition)
        if compacted is None or offset >= compacted.end:
            return total - self._bytes_before(partition, offset, total)
        rest = total - self._bytes_before(partition, compacted.end, total)
        stretch = self._compacted_stretch(partition, compacted)
        return rest if stretch is None else rest + stretch.bytes_from(stretch.row_to_find(offset))

    def _byte_count(self, partition: int) -> int | None:
        """Of all its batches, with those that are gone."""
        standing = self._standing(partition)
        return None if standing is None else standing.byte_count

    def _bytes_before(self, partition: int, offset: int, total: int) -> int:
        """As `_byte_count`, of those before the one that `find` gives."""
        rows = self._open.get(partition)
        if rows is not None:
            opened = stretch_of(rows)
            row = opened.row_of(offset)
            if row >= 0:
                row += opened.ends_before(row, offset)
                return total - opened.bytes_from(row)
        for segment, stretch, row in self._sealed_stretches(partition, offset):
            index = self._sealed(segment)
            at_end = index.byte_count(index.entry(partition))
            return at_end - stretch.bytes_from(row)
        return total if rows is None else rows.earlier_byte_count

    def offset_with_bytes(self, partition: int, byte_count: int) -> int | None:
        """The base offset of the last batch from which on there are so many bytes at least."""
        total = self._byte_count(partition)
        if total is None:
            return None
        compacted = self._compacted.get(partition)
        if compacted is not None:
            rest = total - self._bytes_before(partition, compacted.end, total)
            if byte_count > rest:
                return self._compacted_with_bytes(partition, compacted, byte_count - rest)
        before = total - byte_count
        """The batch must not begin behind so many bytes."""
        segment = self._first_sealed(
            partition, lambda index, entry: index.byte_count(entry) > before
        )
        while segment is not None:
            index = self._sealed(segment)
            entry = index.entry(partition)
            stretch = index.stretch(entry)
            if stretch is not None:
                return _offset_with_bytes(stretch, byte_count - (total - index.byte_count(entry)))
            segment = self._first_behind(partition, segment)
        rows = self._open.get(partition)
        return None if rows is None else _offset_with_bytes(stretch_of(rows), byte_count)

    def _compacted_with_bytes(
        self, partition: int, compacted: Compacted, byte_count: int
    ) -> int | None:
        stretch = self._compacted_stretch(partition, compacted)
        return None if stretch is None else _offset_with_bytes(stretch, byte_count)

    def timestamp_max(self, partition: int) -> int | None:
        rows = self._open.get(partition)
        if rows is not None:
            return rows.timestamp_max
        standing = self._before.standing(partition)
        return None if standing is None else standing.timestamp_max

    def find(self, partition: int, offset: int) -> Location | None:
        """The first batch that ends at or behind this offset."""
        for span in self.spans(partition, offset):
            return span.location(span.first)
        return None

    def position_in_journal(self, partition: int, offset: int) -> int | None:
        """Of the first batch that ends at or behind this offset and lies in no volume."""
        offset = self._offset_in_journal(partition, offset)
        for span in self.spans(partition, offset):
            position = span.positions[span.first]
            if position < names.VOLUMES_FROM:
                return position
        return None

    def _offset_in_journal(self, partition: int, offset: int) -> int:
        """This one, or the first behind all that lies in volumes."""
        compacted = self._compacted.get(partition)
        if compacted is not None:
            offset = max(offset, compacted.end)
        if self._volume_count:
            index = self._sealed(self._volume_count - 1)
            entry = index.entry(partition)
            if entry != NO_ENTRY:
                offset = max(offset, index.last_offset(entry) + 1)
        return offset

    def bytes_in_journal(self, partition: int, offset: int, position: int) -> int:
        """Of batches that reach this offset and lie in no volume, before the position."""
        first = self._offset_in_journal(partition, offset)
        behind = self.offset_behind(partition, position)
        size = self.bytes_from(partition, first)
        return size if behind is None else size - self.bytes_from(partition, max(first, behind))

    def offset_behind(self, partition: int, position: int) -> int | None:
        """The base offset of its first batch at or behind this position of the journal."""
        first = bisect_left(self._sealed_bases, position, self._volume_count)
        last_before = self._last_offset_before(partition, first)
        segment = self._first_sealed(
            partition, lambda index, entry: index.last_offset(entry) > last_before, first
        )
        while segment is not None:
            index = self._sealed(segment)
            stretch = index.stretch(index.entry(partition))
            if stretch is not None:
                return stretch.base_offsets[stretch.first]
            # It has come so far in segments that were given up. In the next it has rows.
            segment = self._first_behind(partition, segment)
        rows = self._open.get(partition)
        return None if rows is None else rows.base_offsets[0]

    def _last_offset_before(self, partition: int, segment: int) -> int:
        """Where its last batch begins that lies before a segment; below all if there is none."""
        if not segment:
            return -1
        index = self._sealed(segment - 1)
        entry = index.entry(partition)
        return -1 if entry == NO_ENTRY else index.last_offset(entry)

    def last_begun(self, partition: int, offset: int) -> Location | None:
        """The last batch to begin at or before this offset, which it may not reach."""
        compacted = self._compacted.get(partition)
        found = self._last_begun(partition, offset)
        if compacted is None or (found is not None and found.base_offset >= compacted.end):
            return found
        stretch = self._compacted_stretch(partition, compacted)
        row = -1 if stretch is None else stretch.row_of(offset)
        return None if stretch is None or row < stretch.first else stretch.location(row)

    def _last_begun(self, partition: int, offset: int) -> Location | None:
        rows = self._open.get(partition)
        if rows is not None and rows.base_offsets[0] <= offset:
            opened = stretch_of(rows)
            return opened.location(opened.row_of(offset))
        found = self._sealed_row(partition, offset)
        if found is None:
            return None
        segment, stretch, row = found
        if stretch is None or row < stretch.first:
            earlier = self._last_before(partition, segment)
            if earlier is None:
                return None
            stretch = earlier[1]
            row = stretch.stop - 1
        return stretch.location(row)

    def first_at_or_after(self, partition: int, timestamp_ms: int) -> Location | None:
        """The first batch whose newest record is as young as this."""
        compacted = self._compacted.get(partition)
        first = 0
        if compacted is not None:
            stretch = self._compacted_stretch(partition, compacted)
            row = 0 if stretch is None else stretch.row_of_time(timestamp_ms)
            if stretch is not None and row < stretch.stop:
                return stretch.location(row)
            first = compacted.end
        youngest_ms = self.timestamp_max(partition)
        if youngest_ms is None or youngest_ms < timestamp_ms:
            return None
        segment = self._first_sealed(
            partition, lambda index, entry: index.timestamp_max(entry) >= timestamp_ms
        )
        while segment is not None:
            index = self._sealed(segment)
            stretch = index.stretch(index.entry(partition))
            if stretch is not None:
                row = _row_from(stretch, stretch.row_of_time(timestamp_ms), first)
                if row < stretch.stop:
                    return stretch.location(row)
            # What was so young is gone.
            segment = self._first_behind(partition, segment)
        rows = self._open.get(partition)
        if rows is None:
            return None
        opened = stretch_of(rows)
        row = _row_from(opened, opened.row_of_time(timestamp_ms), first)
        return opened.location(row) if row < opened.stop else None

    def extents(
        self, partition: int, from_offset: int, below_offset: int, size_max: int
    ) -> list[tuple[int, int]]:
        """Position and size of the batches from `find` on that begin below the bound.

        At least one if there is any, and then as many as fit into `size_max` bytes.
        """
        found: list[tuple[int, int]] = []
        rows = self._open.get(partition)
        if rows is not None:
            first = bisect_right(rows.base_offsets, from_offset) - 1
            if first >= 0:
                # Most readers are here, and most at the beginning of a batch.
                passed = from_offset - rows.base_offsets[first]
                if passed and 0 <= rows.last_offset_deltas[first] < passed:
                    first += 1
                stop = bisect_left(rows.base_offsets, below_offset, first)
                _fill(found, rows.positions, rows.sizes, first, stop, size_max)
                return found
        for span in self.spans(partition, from_offset):
            below = bisect_left(span.base_offsets, below_offset, span.first, span.stop)
            size_max = _fill(found, span.positions, span.sizes, span.first, below, size_max)
            if below < span.stop or size_max < 0:
                break
        return found

    def batches(
        self, partition: int, from_offset: int, below_offset: int, count_max: int
    ) -> list[Location]:
        """The first batches from `find` on that begin below the bound."""
        found: list[Location] = []
        for span in self.spans(partition, from_offset):
            for row in range(span.first, span.stop):
                if len(found) == count_max or span.base_offsets[row] >= below_offset:
                    return found
                found.append(span.location(row))
        return found

    def may_have_aborted(self, partition: int) -> bool:
        """False if no transaction was ever aborted in it, as far as the open segment tells."""
        rows = self._open.get(partition)
        if rows is None or partition in self._compacted:
            return True
        return rows.aborted is not None or rows.earlier_aborted_count > 0

    def aborted(self, partition: int, start: int, end: int) -> list[AbortedTransaction]:
        """Those with a record or marker in [start, end), also if begun before; by first offset."""
        found: list[AbortedTransaction] = []
        compacted = self._compacted.get(partition)
        if compacted is not None and start < compacted.end:
            if compacted.volume is not None:
                index = self._index_at(compacted.volume)
                for piece in index.aborted_from(index.entry(partition), start):
                    piece.gather(start, end, found)
            start = compacted.end
        rows = self._open.get(partition)
        if rows is None or rows.base_offsets[0] > start:
            standing = None if rows is not None else self._before.standing(partition)
            earlier_count = standing.aborted_count if standing is not None else 0
            if rows is not None:
                earlier_count = rows.earlier_aborted_count
            if earlier_count and self._gather_sealed(partition, start, end, found):
                return in_order(found)
        if rows is not None and rows.aborted is not None:
            rows.aborted.gather(start, end, found)
        return in_order(found)

    def _gather_sealed(
        self, partition: int, start: int, end: int, found: list[AbortedTransaction]
    ) -> bool:
        """True if none that was aborted later can overlap."""
        recent = self._recent_segment(partition, start)
        segment = self._first_sealed(
            partition, lambda index, entry: index.last_offset(entry) >= start, recent or 0
        )
        if segment is None:
            return False
        count = self._aborted_count_before(partition, segment)
        # From one segment that has any to the next: there may be very many without.
        while (segment := self._first_with_more_aborted(partition, count, segment)) is not None:
            index = self._sealed(segment)
            entry = index.entry(partition)
            for piece in index.aborted_from(entry, start):
                if piece.gather(start, end, found):
                    return True
            count = index.aborted_count(entry)
        return False

    def _aborted_count_before(self, partition: int, segment: int) -> int:
        """Of all segments before this one."""
        if not segment:
            return 0
        recent = self.in_memory(self._sealed_bases[segment])
        rows = None if recent is None else recent.rows.get(partition)
        if rows is not None:
            return rows.earlier_aborted_count
        earlier = self._sealed(segment - 1)
        entry = earlier.entry(partition)
        return 0 if entry == NO_ENTRY else earlier.aborted_count(entry)

    def _first_with_more_aborted(self, partition: int, count: int, low: int) -> int | None:
        return self._first_sealed(
            partition, lambda index, entry: index.aborted_count(entry) > count, low
        )

    def spans(self, partition: int, offset: int) -> Iterator[Stretch]:
        """All batches from the one that `find` gives, and where they lie."""
        if self._compacted:
            compacted = self._compacted.get(partition)
            if compacted is not None and offset < compacted.end:
                yield from self._compacted_spans(partition, compacted, offset)
                offset = compacted.end
        rows = self._open.get(partition)
        if rows is None:
            yield from self._sealed_spans(partition, offset)
            return
        opened = stretch_of(rows)
        first = opened.row_of(offset)
        if first < 0:
            yield from self._sealed_spans(partition, offset)
            first = 0
        elif opened.ends_before(first, offset):
            first += 1
        if first < opened.stop:
            yield opened.without_pages(first, opened.stop)

    def _compacted_stretch(self, partition: int, compacted: Compacted) -> Stretch | None:
        if compacted.volume is None:
            return None
        index = self._index_at(compacted.volume)
        return index.stretch(index.entry(partition))

    def _compacted_spans(
        self, partition: int, compacted: Compacted, offset: int
    ) -> Iterator[Stretch]:
        stretch = self._compacted_stretch(partition, compacted)
        if stretch is not None:
            yield from _in_cuts(stretch, stretch.row_to_find(offset))

    def _sealed_spans(self, partition: int, offset: int) -> Iterator[Stretch]:
        for _, stretch, row in self._sealed_stretches(partition, offset):
            yield from _in_cuts(stretch, row)

    def _sealed_stretches(self, partition: int, offset: int) -> Iterator[tuple[int, Stretch, int]]:
        """The segments with batches from the one that `find` gives on, the partition's rows there,
        and the first of them that counts."""
        begin = self._sealed_row(partition, offset)
        if begin is None:
            return
        segment, stretch, row = begin
        if stretch is None or row < stretch.first:
            # It lies in the last batch of an earlier segment, or in no batch before these.
            earlier = self._last_before(partition, segment)
            if earlier is not None:
                its_segment, its_stretch = earlier
                last_row = its_stretch.stop - 1
                if not its_stretch.ends_before(last_row, offset):
                    yield its_segment, its_stretch, last_row
            row = 0 if stretch is None else stretch.first
        elif stretch.ends_before(row, offset):
            row += 1
        while True:
            if stretch is not None and row < stretch.stop:
                yield segment, stretch, row
            following = self._first_behind(partition, segment)
            if following is None:
                return
            segment = following
            index = self._sealed(segment)
            stretch = index.stretch(index.entry(partition))
            row = 0 if stretch is None else stretch.first

    def _sealed_row(self, partition: int, offset: int) -> tuple[int, Stretch | None, int] | None:
        """The sealed segment to look for this offset in, the partition's rows there, and the last
        of them to begin at or before it. None if no segment has the partition."""
        recent = self._recent_segment(partition, offset)
        if recent is not None:
            index = self._sealed(recent)
            stretch = index.stretch(index.entry(partition))
            assert stretch is not None
            return recent, stretch, stretch.row_of(offset)
        if self._segment_last < len(self._sealed_bases):
            index = self._sealed(self._segment_last)
            entry = index.entry(partition)
            if entry != NO_ENTRY and offset <= index.last_offset(entry):
                stretch = index.stretch(entry)
                row = -1 if stretch is None else stretch.row_of(offset)
                if stretch is not None and row >= stretch.first:
                    return self._segment_last, stretch, row
        segment = self._segment_of(partition, offset)
        if segment is None:
            return None
        index = self._sealed(segment)
        stretch = index.stretch(index.entry(partition))
        return segment, stretch, -1 if stretch is None else stretch.row_of(offset)

    def _last_before(self, partition: int, segment: int) -> tuple[int, Stretch] | None:
        """The last segment before this one that has rows of the partition, and these."""
        if not segment:
            return None
        index = self._sealed(segment - 1)
        entry = index.entry(partition)
        if entry == NO_ENTRY:
            return None
        stretch = index.stretch(entry)
        if stretch is not None:
            return segment - 1, stretch
        base_offset = index.last_offset(entry)
        earlier = self._first_sealed(
            partition, lambda index, entry: index.last_offset(entry) >= base_offset
        )
        assert earlier is not None, "the one before this segment has come that far"
        index = self._sealed(earlier)
        stretch = index.stretch(index.entry(partition))
        # There are none if they are gone.
        return None if stretch is None else (earlier, stretch)

    def _recent_segment(self, partition: int, offset: int) -> int | None:
        """The segment in memory that has the last batch to begin at or before this offset, if it
        is in one of them: who reads the newest should not meet the files of old ones."""
        for segment in range(len(self._sealed_bases) - 1, -1, -1):
            recent = self.in_memory(self._sealed_bases[segment])
            if recent is None:
                return None
            rows = recent.rows.get(partition)
            if rows is not None and rows.base_offsets[0] <= offset:
                return segment
        return None

    def _segment_of(self, partition: int, offset: int) -> int | None:
        """The sealed segment to look for this offset in, if any has the partition."""
        segment = self._first_sealed(
            partition, lambda index, entry: index.last_offset(entry) >= offset
        )
        if segment is None:
            newest = len(self._sealed_bases) - 1
            is_known = newest >= 0 and self._sealed(newest).entry(partition) != NO_ENTRY
            return newest if is_known else None
        self._segment_last = segment
        return segment

    def _first_behind(self, partition: int, segment: int) -> int | None:
        """The next segment that has rows behind those of this one."""
        index = self._sealed(segment)
        base_offset = index.last_offset(index.entry(partition))
        following = segment + 1
        if following < len(self._sealed_bases):
            # Mostly it is this.
            index = self._sealed(following)
            entry = index.entry(partition)
            if entry != NO_ENTRY and index.last_offset(entry) > base_offset:
                return following
        return self._first_sealed(
            partition, lambda index, entry: index.last_offset(entry) > base_offset, following
        )

    def _first_sealed(
        self, partition: int, reached: Callable[[SegmentIndex, int], bool], low: int = 0
    ) -> int | None:
        """The first sealed segment at whose end the partition had come that far."""
        high = len(self._sealed_bases)
        while low < high:
            middle = (low + high) // 2
            index = self._sealed(middle)
            entry = index.entry(partition)
            if entry != NO_ENTRY and reached(index, entry):
                high = middle
            else:
                low = middle + 1
        return low if low < len(self._sealed_bases) else None

    def _sealed(self, segment: int) -> SegmentIndex:
        base = self._sealed_bases[segment]
        recent = self.in_memory(base)
        return self._index_at(base) if recent is None else recent

    def _index_at(self, base: int) -> AnySealedIndex:
        """From the file of the segment or volume that begins there."""
        index = self._files.get(base)
        if index is not None:
            self._files.move_to_end(base)
            return index
        index = open_index(self._pages, names.index_at(base))
        if index.base != base:
            raise damaged(names.index_at(base), f"this is the index at {index.base}")
        self._files[base] = index
        if len(self._files) > INDEXES_MAX:
            self._files.popitem(last=False)
        return index

    def in_memory(self, base: int) -> IndexInMemory | None:
        return self._unpublished.get(base) or self._published.get(base)

    def _standing(self, partition: int) -> Standing | None:
        rows = self._open.get(partition)
        return self._before.standing(partition) if rows is None else rows.standing()

    # Sealing.

    def seal(self, base: int, end: int) -> None:
        """The segment [base, end) is complete."""
        index = IndexInMemory(base, end, self._open, self._dropped, self._before)
        self._unpublished[base] = index
        self._sealed_bases.append(base)
        self._before = index
        self._open = {}
        self._dropped = []

    def release_before(self, base: int) -> None:
        """The sealed segments before this one are given up; their index files are written."""
        first = self._volume_count
        stop = bisect_left(self._sealed_bases, base, first)
        for each in self._sealed_bases[first:stop]:
            assert each not in self._unpublished
            self._forget(each)
        del self._sealed_bases[first:stop]
        self._segment_last = 0

    def adopt_compacted(self, partition: int, compacted: Compacted) -> None:
        """What compaction has left of it is found there from now on."""
        self._compacted[partition] = compacted

    def forget_compacted(self, partition: int) -> None:
        """What compaction has left of it, if anything, is deleted."""
        self._compacted.pop(partition, None)

    def settle(self, volumes: Sequence[int], end: int) -> None:
        """What lives on of the journal before `end` lies in the volumes that begin at these
        positions, and nowhere else, but for what was compacted."""
        for base in self._sealed_bases[: self._volume_count]:
            if base not in volumes:
                self._forget(base)
        settled = bisect_left(self._sealed_bases, end, self._volume_count)
        for base in self._sealed_bases[self._volume_count : settled]:
            self._forget(base)
        self._sealed_bases = array("q", volumes) + self._sealed_bases[settled:]
        self._volume_count = len(volumes)
        self._segment_last = 0

    def _forget(self, base: int) -> None:
        self._published.pop(base, None)
        self._files.pop(base, None)

    def unpublished(self) -> list[IndexInMemory]:
        """Sealed indexes that have no file yet, oldest first. What they encode may be encoded by
        a thread, one at a time."""
        return list(self._unpublished.values())

    def published(self, base: int) -> None:
        """The file is there to stay; the rows are needed for the frames alone that are held."""
        index = self._unpublished.pop(base)
        if index.end > self._not_held_to:
            self._published[base] = index
        directory = index.directory
        assert directory is not None
        if self._before is index:
            self._before = directory
        for later in self._unpublished.values():
            if later.before is index:
                later.before = directory

    def not_held_to(self, position: int) -> None:
        """Frames are held in memory, but none that begins at this position or before it."""
        self._not_held_to = position
        for base, index in list(self._published.items()):
            if index.end > position:
                break
            del self._published[base]

    def encode_open(self, base: int, end: int) -> Generator[None, None, bytearray]:
        """The rows of the open segment as of now, with every partition's summary.

        The steps may be taken later, when there are more, as those of `IndexInMemory.encode`.
        """
        return _encode_open(self._before, self._open, frozenset(self._dropped), base, end)

    def restore(self, sealed_bases: Sequence[int], opened: AnySealedIndex) -> None:
        """What `encode_open` gave, behind these sealed segments."""
        self._sealed_bases = array("q", sealed_bases)
        self._before, self._open = opened.restored()


def _fill(
    found: list[tuple[int, int]],
    positions: Numbers,
    sizes: Numbers,
    first: int,
    stop: int,
    size_max: int,
) -> int:
    """Adds position and size of these rows, one at least to an empty list, and then as many as
    fit; gives the bytes that are left, fewer than none if there was one too many."""
    for row in range(first, stop):
        size = sizes[row]
        if size > size_max and found:
            return -1
        size_max -= size
        found.append((positions[row], size))
    return size_max


def _in_cuts(stretch: Stretch, row: int) -> Iterator[Stretch]:
    """From this row on, few at first."""
    count = ROWS_CUT_MIN
    while row < stretch.stop:
        stop = min(row + count, stretch.stop)
        yield stretch.without_pages(row, stop)
        row = stop
        count = min(2 * count, ROWS_CUT_MAX)


def _row_from(stretch: Stretch, row: int, offset: int) -> int:
    """This one, or the first behind it to begin at the offset or later."""
    if row < stretch.stop and stretch.base_offsets[row] < offset:
        return stretch.row_of(offset - 1) + 1
    return row


def _offset_with_bytes(stretch: Stretch, byte_count: int) -> int | None:
    """The base offset of the last row from which on there are so many bytes; None if all have
    fewer."""
    row = stretch.row_behind(stretch.bytes_before(stretch.stop) - byte_count)
    return None if row < stretch.first else stretch.base_offsets[row]


def _encode_open(
    before: IndexInMemory | Directory,
    rows: dict[int, Rows],
    dropped: frozenset[int],
    base: int,
    end: int,
) -> Generator[None, None, bytearray]:
    directory = yield from directory_of(before)
    _, content = yield from sealed.encode(directory, rows, dropped, base, end)
    return content

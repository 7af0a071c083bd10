"""Where each partition's batches lie: in memory for the open segment, in files for the others.

What lives on of old segments is settled in volumes, which take their place: a volume tells the same
as the segments that it was made of, but for what is gone. What compaction has left of a partition
takes the place of all that it had before.

Of the open segment, the partitions written in it have rows, which are kept until the index file of
the segment is written and none of its frames is held in memory. Where all the others stand is told
by the directory of the segment before.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Mapping, Sequence

from semel.journal import names
from semel.journal.compacted import Compacted, CompactedParts
from semel.journal.containers import Containers
from semel.journal.index_files import AnySealedIndex
from semel.journal.index_in_memory import IndexInMemory, encode_open
from semel.journal.pages import ReadNow
from semel.journal.rows import UNKNOWN_DELTA, Directory, Location, Rows, Standing
from semel.journal.stretch import Numbers, Stretch, stretch_of
from semel.log.transactions import Aborted, AbortedIndex, AbortedTransaction, in_order


class BatchIndex:
    def __init__(self, read_now: ReadNow) -> None:
        self._open: dict[int, Rows] = {}
        """By partition, of those that have been written in the open segment."""
        self._dropped: list[int] = []
        """Partitions deleted in the open segment. What is encoded as of a point before that still
        has them: the deletion itself may yet be lost."""
        self._before: IndexInMemory | Directory = Directory()
        """Where all others stand."""
        self._containers = Containers(read_now)
        self._compacted = CompactedParts(self._containers)

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

    def drop(self, partitions: Sequence[int]) -> None:
        """They are deleted; their numbers are never used again."""
        if self._compacted.parts:
            for partition in partitions:
                self._compacted.parts.pop(partition, None)
        self._dropped += partitions

    # For who builds it.

    def volumes_are_far(self) -> None:
        """They do not lie where the journal does."""
        self._containers.are_volumes_far = True

    @property
    def containers(self) -> list[int]:
        """Where the volumes and sealed segments begin, in the journal's order."""
        return self._containers.bases()

    def in_memory(self, base: int) -> IndexInMemory | None:
        """Of the sealed segment that begins there."""
        return self._containers.in_memory(base)

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

    # Finding batches.

    def find(self, partition: int, offset: int) -> Location | None:
        """The first batch that ends at or behind this offset."""
        for span in self.spans(partition, offset):
            return span.location(span.first)
        return None

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
        if partition not in self._compacted.parts:
            begun = self._containers.begun(partition, from_offset)
            if begun is not None:
                stretch, first = begun
                stop = bisect_left(stretch.base_offsets, below_offset, first, stretch.stop)
                left = _fill(found, stretch.positions, stretch.sizes, first, stop, size_max)
                if stop < stretch.stop or left < 0:
                    return found
                # There may be more behind these.
                found.clear()
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

    def spans(self, partition: int, offset: int) -> Iterator[Stretch]:
        """All batches from the one that `find` gives, and where they lie."""
        floor = 0
        if self._compacted.parts:
            compacted = self._compacted.parts.get(partition)
            if compacted is not None:
                floor = compacted.end
                if offset < floor:
                    yield from self._compacted.spans(partition, compacted, offset)
                    offset = floor
        rows = self._open.get(partition)
        if rows is None:
            yield from self._containers.spans(partition, offset, floor)
            return
        opened = stretch_of(rows)
        first = opened.row_of(offset)
        if first < 0:
            yield from self._containers.spans(partition, offset, floor)
            first = 0
        elif opened.ends_before(first, offset):
            first += 1
        if first < opened.stop:
            yield opened.without_pages(first, opened.stop)

    def containers_from(self, partition: int, offset: int) -> list[int]:
        """Where the volumes and sealed segments begin that have batches from this offset on, as
        they were before compaction."""
        return self._containers.bases_from(partition, offset)

    def last_begun(self, partition: int, offset: int) -> Location | None:
        """The last batch to begin at or before this offset, which it may not reach."""
        compacted = self._compacted.parts.get(partition)
        found = self._last_begun(partition, offset)
        if compacted is None or (found is not None and found.base_offset >= compacted.end):
            return found
        return self._compacted.last_begun(partition, compacted, offset)

    def _last_begun(self, partition: int, offset: int) -> Location | None:
        rows = self._open.get(partition)
        if rows is not None and rows.base_offsets[0] <= offset:
            opened = stretch_of(rows)
            return opened.location(opened.row_of(offset))
        return self._containers.last_begun(partition, offset)

    # By time.

    def timestamp_max(self, partition: int) -> int | None:
        rows = self._open.get(partition)
        if rows is not None:
            return rows.timestamp_max
        standing = self._before.standing(partition)
        return None if standing is None else standing.timestamp_max

    def first_at_or_after(self, partition: int, timestamp_ms: int, start: int) -> Location | None:
        """The first batch as young as this, by its newest record or any before it, of those that
        end at or behind the offset `start`. What was before may be gone, and is not looked for."""
        youngest_ms = self.timestamp_max(partition)
        if youngest_ms is None or youngest_ms < timestamp_ms:
            return None
        first = self.find(partition, start)
        if first is None:
            return None
        from_offset = first.base_offset
        compacted = self._compacted.parts.get(partition)
        if compacted is not None and from_offset < compacted.end:
            found = self._compacted.first_at_or_after(
                partition, compacted, timestamp_ms, from_offset
            )
            if found is not None:
                return found
            from_offset = compacted.end
        found = self._containers.first_at_or_after(partition, timestamp_ms, from_offset)
        rows = self._open.get(partition)
        if found is not None or rows is None:
            return found
        opened = stretch_of(rows)
        row = opened.row_of_time_from(timestamp_ms, from_offset)
        return opened.location(row) if row < opened.stop else None

    # By bytes.

    def sum_up(self, partition: int) -> bool:
        """Take a step towards that no lookup which counts bytes goes through many rows; whether
        there are more. Who adds rows does not sum them up, as most are never counted."""
        for rows in self._containers.rows_in_memory(partition):
            if rows.sum_up():
                return True
        opened = self._open.get(partition)
        return opened is not None and opened.sum_up()

    def bytes_from(self, partition: int, offset: int) -> int:
        """Of its batches from the one that `find` gives."""
        total = self._byte_count(partition)
        if total is None:
            return 0
        compacted = self._compacted.parts.get(partition)
        if compacted is None:
            return total - self._bytes_before(partition, offset, total, 0)
        rest = total - self._bytes_before(
            partition, max(offset, compacted.end), total, compacted.end
        )
        if offset >= compacted.end:
            return rest
        return rest + self._compacted.bytes_from(partition, compacted, offset)

    def _byte_count(self, partition: int) -> int | None:
        """Of all its batches, with those that are gone."""
        standing = self._standing(partition)
        return None if standing is None else standing.byte_count

    def _bytes_before(self, partition: int, offset: int, total: int, floor: int) -> int:
        """As `_byte_count`, of those before the one that `find` gives; what begins before `floor`
        is compacted."""
        rows = self._open.get(partition)
        if rows is not None:
            opened = stretch_of(rows)
            row = opened.row_of(offset)
            if row >= 0:
                row += opened.ends_before(row, offset)
                return total - opened.bytes_from(row)
        before = self._containers.bytes_before(partition, offset, floor)
        if before is not None:
            return before
        return total if rows is None else rows.earlier_byte_count

    def offset_with_bytes(self, partition: int, byte_count: int, start: int) -> int | None:
        """The base offset of the last batch from which on there are so many bytes at least; None if
        there are fewer from the one on that ends at or behind the offset `start`."""
        total = self._byte_count(partition)
        if total is None or byte_count > self.bytes_from(partition, start):
            return None
        compacted = self._compacted.parts.get(partition)
        if compacted is not None:
            rest = total - self._bytes_before(partition, compacted.end, total, compacted.end)
            if byte_count > rest:
                return self._compacted.offset_with_bytes(partition, compacted, byte_count - rest)
        found = self._containers.offset_with_bytes(partition, byte_count, total)
        rows = self._open.get(partition)
        if found is not None or rows is None:
            return found
        return stretch_of(rows).offset_with_bytes(byte_count)

    def _standing(self, partition: int) -> Standing | None:
        rows = self._open.get(partition)
        return self._before.standing(partition) if rows is None else rows.standing()

    # By where they lie.

    def position_in_journal(self, partition: int, offset: int) -> int | None:
        """Of the first batch that ends at or behind this offset and lies in no volume."""
        first = self._first_in_journal(partition, offset)
        return None if first is None else first.position

    def bytes_in_journal(self, partition: int, offset: int, position: int) -> int:
        """Of batches that reach this offset and lie in no volume, before the position."""
        first = self._first_in_journal(partition, offset)
        if first is None:
            return 0
        behind = self.offset_behind(partition, position)
        size = self.bytes_from(partition, first.base_offset)
        if behind is None:
            return size
        return size - self.bytes_from(partition, max(first.base_offset, behind))

    def _first_in_journal(self, partition: int, offset: int) -> Location | None:
        compacted = self._compacted.parts.get(partition)
        if compacted is not None:
            offset = max(offset, compacted.end)
        last_offset = self._containers.last_settled_offset(partition)
        if last_offset is not None:
            offset = max(offset, last_offset + 1)
        for span in self.spans(partition, offset):
            # The last batch of a volume has this offset as well if it has several records.
            if span.positions[span.first] < names.VOLUMES_FROM:
                return span.location(span.first)
        return None

    def offset_behind(self, partition: int, position: int) -> int | None:
        """The base offset of its first batch at or behind this position of the journal, at which a
        segment begins."""
        found = self._containers.offset_behind(partition, position)
        if found is not None:
            return found
        rows = self._open.get(partition)
        return None if rows is None else rows.base_offsets[0]

    # Aborted transactions.

    def may_have_aborted(self, partition: int) -> bool:
        """False if no transaction was ever aborted in it, as far as the open segment tells."""
        rows = self._open.get(partition)
        if rows is None or partition in self._compacted.parts:
            return True
        return rows.aborted is not None or rows.earlier_aborted_count > 0

    def aborted(self, partition: int, start: int, end: int) -> list[AbortedTransaction]:
        """Those with a record or marker in [start, end), also if begun before; by first offset."""
        found: list[AbortedTransaction] = []
        compacted = self._compacted.parts.get(partition)
        if compacted is not None and start < compacted.end:
            self._compacted.gather_aborted(partition, compacted, start, end, found)
            start = compacted.end
        rows = self._open.get(partition)
        if rows is None or rows.base_offsets[0] > start:
            standing = None if rows is not None else self._before.standing(partition)
            earlier_count = standing.aborted_count if standing is not None else 0
            if rows is not None:
                earlier_count = rows.earlier_aborted_count
            if earlier_count and self._containers.gather_aborted(partition, start, end, found):
                return in_order(found)
        if rows is not None and rows.aborted is not None:
            rows.aborted.gather(start, end, found)
        return in_order(found)

    def aborted_by_markers(self, partition: int, start: int, end: int) -> list[Aborted]:
        """Those whose markers lie in [start, end), or lay there before compaction, by marker."""
        pieces: list[AbortedIndex] = []
        compacted = self._compacted.parts.get(partition)
        floor = 0 if compacted is None else compacted.end
        if compacted is not None and start < floor:
            pieces += self._compacted.aborted_pieces(partition, compacted, start)
        behind = self._containers.aborted_pieces(partition, max(start, floor), end)
        rows = self._open.get(partition)
        if rows is not None and rows.aborted is not None:
            behind.append(rows.aborted)
        found = [each for piece in pieces for each in piece if each.marker_offset < floor]
        found += [each for piece in behind for each in piece if each.marker_offset >= floor]
        return [each for each in found if start <= each.marker_offset < end]

    # What becomes of segments.

    def seal(self, base: int, end: int) -> None:
        """The segment [base, end) is complete."""
        index = IndexInMemory(base, end, self._open, self._dropped, self._before)
        self._containers.add(index)
        self._before = index
        self._open = {}
        self._dropped = []

    def unpublished(self) -> list[IndexInMemory]:
        """Sealed indexes that have no file yet, oldest first. What they encode may be encoded by
        a thread, one at a time."""
        return self._containers.unpublished()

    def published(self, base: int) -> None:
        """The file is there to stay; the rows are needed for the frames alone that are held."""
        index = self._containers.published(base)
        if self._before is index:
            assert index.directory is not None
            self._before = index.directory

    def not_held_to(self, position: int) -> None:
        """Frames are held in memory, but none that begins at this position or before it."""
        self._containers.not_held_to(position)

    def release_before(self, base: int) -> None:
        """The sealed segments before this one are given up; their index files are written."""
        self._containers.release_before(base)

    def settle(self, volumes: Sequence[int], end: int) -> None:
        """What lives on of the journal before `end` lies in the volumes that begin at these
        positions, and nowhere else, but for what was compacted."""
        self._containers.settle(volumes, end)

    def adopt_compacted(self, partition: int, compacted: Compacted) -> None:
        """What compaction has left of it is found there from now on."""
        self._compacted.parts[partition] = compacted

    def forget_compacted(self, partition: int) -> None:
        """What compaction has left of it, if anything, is deleted."""
        self._compacted.parts.pop(partition, None)

    def encode_open(self, base: int, end: int) -> Generator[None, None, bytearray]:
        """The rows of the open segment as of now, with every partition's summary.

        The steps may be taken later, when there are more, as those of `IndexInMemory.encode`.
        """
        return encode_open(self._before, self._open, frozenset(self._dropped), base, end)

    def restore(self, sealed_bases: Sequence[int], opened: AnySealedIndex) -> None:
        """What `encode_open` gave, behind these sealed segments."""
        self._containers.restore(sealed_bases)
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

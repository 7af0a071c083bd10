"""Where each partition's batches lie: in memory for the open segment, in files for the others.

Nothing is kept in memory per batch of a sealed segment: its index is mapped when it is asked, and
few maps stay open. A sealed index whose file is not written yet is held as the bytes it will have.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from semel.journal import names, sealed
from semel.journal.sealed import NO_ENTRY, Location, Rows, SealedIndex

MAPS_MAX: Final = 32


class Span(NamedTuple):
    """Rows of one partition that follow each other in one segment, from `first` below `stop`."""

    base_offsets: Sequence[int]
    positions: Sequence[int]
    sizes: Sequence[int]
    first: int
    stop: int


class BatchIndex:
    def __init__(self, load: Callable[[str], memoryview]) -> None:
        self._load = load
        self._partitions: dict[int, Rows] = {}
        self._sealed_bases = array("q")
        self._maps: OrderedDict[int, SealedIndex] = OrderedDict()
        self._unpublished: dict[int, bytes] = {}
        self._place_last = 0
        """The sealed segment that was found last: who reads many partitions is often in one."""

    # The open segment.

    def add(
        self, partition: int, base_offset: int, position: int, size: int, max_timestamp: int
    ) -> None:
        rows = self._partitions.get(partition)
        if rows is None:
            rows = self._partitions[partition] = Rows()
        # The running maximum rises, so that a time is found by halving.
        if max_timestamp < rows.timestamp_max:
            max_timestamp = rows.timestamp_max
        else:
            rows.timestamp_max = max_timestamp
        rows.timestamps.append(max_timestamp)
        rows.base_offsets.append(base_offset)
        rows.positions.append(position)
        rows.sizes.append(size)

    def drop(self, partition: int) -> None:
        """The partition is deleted; its handle is never used again."""
        self._partitions.pop(partition, None)

    # Lookups.

    def bytes_of(self, partition: int) -> int:
        rows = self._partitions.get(partition)
        return 0 if rows is None else rows.byte_count()

    def timestamp_max(self, partition: int) -> int | None:
        rows = self._partitions.get(partition)
        return None if rows is None else rows.timestamp_max

    def find(self, partition: int, offset: int) -> Location | None:
        """The batch that holds this offset: the last to begin at or before it, else the first."""
        for span in self.spans(partition, offset):
            row = span.first
            return Location(span.base_offsets[row], span.positions[row], span.sizes[row])
        return None

    def first_at_or_after(self, partition: int, timestamp_ms: int) -> Location | None:
        """The first batch whose newest record is as young as this."""
        rows = self._partitions.get(partition)
        if rows is None or rows.timestamp_max < timestamp_ms:
            return None
        place = self._first_sealed(
            partition, lambda index, entry: index.timestamp_maxima[entry] >= timestamp_ms
        )
        if place is None:
            row = bisect_left(rows.timestamps, timestamp_ms)
            return Location(rows.base_offsets[row], rows.positions[row], rows.sizes[row])
        index = self._sealed(place)
        row = bisect_left(index.timestamps, timestamp_ms, *index.rows_of(index.entry(partition)))
        return Location(index.base_offsets[row], index.positions[row], index.sizes[row])

    def locations(
        self, partition: int, from_offset: int, below_offset: int, size_max: int
    ) -> list[tuple[int, int]]:
        """Position and size of the batches from `find` on that begin below the bound.

        At least one if there is any, and then as many as fit into `size_max` bytes.
        """
        found: list[tuple[int, int]] = []
        left = size_max
        for base_offsets, positions, sizes, first, stop in self.spans(partition, from_offset):
            below = bisect_left(base_offsets, below_offset, first, stop)
            for row in range(first, below):
                size = sizes[row]
                if size > left and found:
                    return found
                left -= size
                found.append((positions[row], size))
            if below < stop:
                break
        return found

    def spans(self, partition: int, offset: int) -> Iterator[Span]:
        """All batches from the one that `find` gives."""
        rows = self._partitions.get(partition)
        if rows is None:
            return
        first = bisect_right(rows.base_offsets, offset) - 1
        if first < 0:
            yield from self._sealed_spans(partition, offset)
            first = 0
        if first < len(rows.base_offsets):
            yield Span(rows.base_offsets, rows.positions, rows.sizes, first, len(rows.base_offsets))

    def _sealed_spans(self, partition: int, offset: int) -> Iterator[Span]:
        place = self._place_of(partition, offset)
        if place is None:
            return
        index = self._sealed(place)
        entry = index.entry(partition)
        first, stop = index.rows_of(entry)
        row = bisect_right(index.base_offsets, offset, first, stop) - 1
        if row < first:
            # It lies in the last batch of an earlier segment, or before the first batch of all.
            earlier = self._sealed(place - 1) if place else None
            earlier_entry = NO_ENTRY if earlier is None else earlier.entry(partition)
            if earlier is not None and earlier_entry != NO_ENTRY:
                last = earlier.last(earlier_entry)
                yield Span([last.base_offset], [last.position], [last.size], 0, 1)
            row = first
        while True:
            if row < stop:
                yield Span(index.base_offsets, index.positions, index.sizes, row, stop)
            following = self._first_behind(partition, index.last_offsets[entry])
            if following is None:
                return
            index = self._sealed(following)
            entry = index.entry(partition)
            row, stop = index.rows_of(entry)

    def _place_of(self, partition: int, offset: int) -> int | None:
        """The sealed segment to look for this offset in, if any has the partition."""
        if self._place_last < len(self._sealed_bases):
            index = self._sealed(self._place_last)
            entry = index.entry(partition)
            if entry != NO_ENTRY and offset <= index.last_offsets[entry]:
                first, stop = index.rows_of(entry)
                if first < stop and index.base_offsets[first] <= offset:
                    return self._place_last
        place = self._first_sealed(
            partition, lambda index, entry: index.last_offsets[entry] >= offset
        )
        if place is None:
            newest = len(self._sealed_bases) - 1
            is_known = newest >= 0 and self._sealed(newest).entry(partition) != NO_ENTRY
            return newest if is_known else None
        self._place_last = place
        return place

    def _first_behind(self, partition: int, base_offset: int) -> int | None:
        return self._first_sealed(
            partition, lambda index, entry: index.last_offsets[entry] > base_offset
        )

    def _first_sealed(
        self, partition: int, reached: Callable[[SealedIndex, int], bool]
    ) -> int | None:
        """The first sealed segment at whose end the partition had come that far."""
        low, high = 0, len(self._sealed_bases)
        while low < high:
            middle = (low + high) // 2
            index = self._sealed(middle)
            entry = index.entry(partition)
            if entry != NO_ENTRY and reached(index, entry):
                high = middle
            else:
                low = middle + 1
        return low if low < len(self._sealed_bases) else None

    def _sealed(self, place: int) -> SealedIndex:
        base = self._sealed_bases[place]
        index = self._maps.get(base)
        if index is not None:
            self._maps.move_to_end(base)
            return index
        name = names.index(base)
        stored = self._unpublished.get(base)
        index = SealedIndex(self._load(name) if stored is None else memoryview(stored), name)
        self._maps[base] = index
        if len(self._maps) > MAPS_MAX:
            self._maps.popitem(last=False)
        return index

    # Sealing.

    @property
    def sealed_count(self) -> int:
        return len(self._sealed_bases)

    def seal(self, base: int, end: int) -> None:
        """The segment [base, end) is complete."""
        self._unpublished[base] = sealed.encode(self._partitions, base, end)
        self._sealed_bases.append(base)
        for partition, rows in self._partitions.items():
            if rows.base_offsets:
                self._partitions[partition] = rows.successor()

    def unpublished(self) -> list[tuple[int, bytes]]:
        """Sealed indexes that have no file yet, oldest first."""
        return list(self._unpublished.items())

    def published(self, base: int) -> None:
        """The file is there to stay; the bytes need not be held any more."""
        if self._unpublished.pop(base, None) is not None:
            self._maps.pop(base, None)

    def encode_open(self, base: int, end: int) -> bytes:
        """The rows of the open segment so far, with every partition's summary."""
        return sealed.encode(self._partitions, base, end)

    def restore(self, sealed_bases: Sequence[int], opened: SealedIndex) -> None:
        """What `encode_open` gave, behind these sealed segments."""
        self._sealed_bases = array("q", sealed_bases)
        self._partitions = {partition: opened.rows(partition) for partition in opened.partitions()}

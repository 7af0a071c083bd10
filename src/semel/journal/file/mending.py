"""Builds the index of a sealed segment again, if its file is lost: from the frames of the segment.

What stood before comes from the index of the segment or volume before it. Two things are not told
by these alone:

Segments may have been given up in between. Then the bytes that were counted up to here follow from
what is counted behind.

A transaction that was aborted in the segment may have begun before it. Its first batch is looked
for backwards, up to the producer's marker before. What else was open then is not known, so that
the floors in such an index are those of the last one before, which are never too high.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Protocol

from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file.checkpoints import write_whole
from semel.journal.file.device import Device
from semel.journal.file.walk import SegmentReader, StoredFrame, frame_at
from semel.journal.frames import HEADER_SIZE
from semel.journal.index import BatchIndex
from semel.journal.index_files import AnySealedIndex, open_index
from semel.journal.pages import Pages
from semel.journal.rows import Directory
from semel.journal.sealed import NO_ENTRY
from semel.log.transactions import Aborted
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.records.control import Marker, MarkerType
from semel.types import Offset, ProducerId

INDEX_BYTES_HELD: Final = 32 * 2**20


class IndexedBatch(Protocol):
    """A batch as it lies in a frame."""

    number: int
    """Of its partition."""
    header: BatchHeader
    at: int
    """Where it begins in the payload."""
    marker: Marker | None


BatchesOf = Callable[[memoryview, int], Sequence[IndexedBatch]]
"""Those of a payload, which begins at that position of the journal. Raises CorruptJournal."""


class Mending:
    def __init__(
        self, device: Device, index: BatchIndex, segments: Sequence[int], batches_of: BatchesOf
    ) -> None:
        """Of all segments, where they begin; the index knows all batches, but for the files."""
        self._device = device
        self._index = index
        self._batches_of = batches_of
        self._ends = dict(pairwise(segments))
        self._containers = index.containers
        self._pages = Pages(device.read, INDEX_BYTES_HELD)
        self._sizes: dict[int, dict[int, int]] = {}
        """Bytes of each partition, by segment."""

    def mend(self, missing: Sequence[int]) -> None:
        """Write the files of these segments, which come in their order. Lasting when it returns.

        Raises CorruptJournal, OSError.
        """
        for base in missing:
            content = self._built(base, missing)
            for _ in write_whole(self._device, names.index(base), [content]):
                pass
        self._device.sync_folder()

    def _built(self, base: int, missing: Sequence[int]) -> bytearray:
        # Of what was settled nobody asks where it stood: the file alone has to be there.
        is_needed = base in self._containers
        before = self._containers[: self._containers.index(base)] if is_needed else []
        directory = self._opened(before[-1]).directory() if before else Directory()
        built = BatchIndex(self._device.read_now)
        built.begin(directory)
        self._add(built, base, before)
        if is_needed and not self._is_counted(base, before, missing):
            built.count_from(self._counted_before(base, missing))
        built.seal(base, self._ends[base])
        (encoded,) = built.unpublished()
        encoding = encoded.encode()
        while True:
            try:
                next(encoding)
            except StopIteration as done:
                content: bytearray = done.value
                return content

    def _opened(self, base: int) -> AnySealedIndex:
        return open_index(self._pages, names.index_at(base))

    def _batches(self, base: int) -> Iterator[tuple[int, IndexedBatch]]:
        """With the position of the payload that each lies in."""
        for frame in _frames(self._device, base, self._ends[base]):
            position = frame.header.position + HEADER_SIZE
            for batch in self._batches_of(frame.payload, position):
                yield position, batch

    def _add(self, built: BatchIndex, base: int, before: Sequence[int]) -> None:
        begun: dict[tuple[int, int], int] = {}
        """First offsets of transactions, by partition and producer, as far as seen here."""
        ended: set[tuple[int, int]] = set()
        """Of whom a marker was seen here: what they have open began behind it."""
        for position, batch in self._batches(base):
            header, number = batch.header, batch.number
            built.add(
                number,
                header.base_offset,
                position + batch.at,
                header.size,
                header.max_timestamp_ms,
                header.last_offset_delta,
            )
            key = (number, header.producer_id)
            if batch.marker is None:
                if header.is_transactional:
                    begun.setdefault(key, header.base_offset)
                continue
            first = begun.pop(key, None)
            if batch.marker.type is MarkerType.ABORT:
                floor = self._floor_before(number, before)
                if key not in ended:
                    earlier = self._began_before(number, header.producer_id, before, floor)
                    first = first if earlier is None else earlier
                if first is not None:
                    built.add_aborted(
                        number,
                        Aborted(
                            ProducerId(header.producer_id),
                            Offset(first),
                            Offset(header.base_offset),
                            Offset(floor),
                        ),
                    )
            ended.add(key)

    def _floor_before(self, partition: int, before: Sequence[int]) -> int:
        """Of the last transaction that was aborted there."""
        for base in reversed(before):
            index = self._opened(base)
            entry = index.entry(partition)
            if entry == NO_ENTRY or not index.aborted_count(entry):
                break
            floor = None
            for piece in index.aborted_from(entry, 0):
                for aborted in piece:
                    floor = aborted.floor
            if floor is not None:
                return floor
        return 0

    def _began_before(
        self, partition: int, producer_id: int, before: Sequence[int], floor: int
    ) -> int | None:
        """Where the transaction began that this producer had open at the end of these, if any."""
        found: int | None = None
        for base in reversed(before):
            index = self._opened(base)
            entry = index.entry(partition)
            stretch = None if entry == NO_ENTRY else index.stretch(entry)
            if entry == NO_ENTRY:
                break
            if stretch is None:
                continue
            for row in range(stretch.stop - 1, stretch.first - 1, -1):
                location = stretch.location(row)
                if location.base_offset < floor:
                    return found
                header = self._header_at(base, location.position)
                if header.producer_id != producer_id:
                    continue
                if header.is_control:
                    return found
                if header.is_transactional:
                    found = location.base_offset
        return found

    def _header_at(self, base: int, position: int) -> BatchHeader:
        name = names.data_at(base)
        stored = self._device.read(name, position - base, record_batch.HEADER_SIZE)
        if len(stored) < record_batch.HEADER_SIZE:
            raise CorruptJournal(f"{name}: cut at byte {position - base + len(stored)}")
        return record_batch.read_header(stored)

    # Counting

    def _is_counted(self, base: int, before: Sequence[int], missing: Sequence[int]) -> bool:
        """Whether the directory before it counts all bytes of all partitions."""
        for each in reversed(before):
            if each >= names.VOLUMES_FROM:
                return False
            if each not in missing:
                return True
            base = each
        return not base

    def _counted_before(self, base: int, missing: Sequence[int]) -> dict[int, int]:
        """The bytes that each partition had before this segment, as the first one behind tells of
        which there is an index."""
        passed: dict[int, int] = {}
        containers = self._containers
        for each in containers[containers.index(base) :]:
            if each not in missing:
                return _less(self._start_counts(each, passed), passed)
            for number, size in self._sizes_in(each).items():
                passed[number] = passed.get(number, 0) + size
        opened = {number: self._index.bytes_before_open(number) for number in passed}
        return _less(opened, passed)

    def _sizes_in(self, base: int) -> dict[int, int]:
        if base not in self._sizes:
            sizes = self._sizes[base] = {}
            for _, batch in self._batches(base):
                sizes[batch.number] = sizes.get(batch.number, 0) + batch.header.size
        return self._sizes[base]

    def _start_counts(self, base: int, wanted: dict[int, int]) -> dict[int, int | None]:
        index = self._index.in_memory(base) or self._opened(base)
        found: dict[int, int | None] = {}
        for number in wanted:
            entry = index.entry(number)
            if entry == NO_ENTRY:
                found[number] = None
                continue
            stretch = index.stretch(entry)
            size = 0
            if stretch is not None:
                size = stretch.bytes_before(stretch.stop)
            found[number] = index.byte_count(entry) - size
        return found


def _less(counts: dict[int, int | None], passed: dict[int, int]) -> dict[int, int]:
    """Without those that were deleted meanwhile, of which nobody will ask."""
    return {number: count - passed[number] for number, count in counts.items() if count is not None}


def _frames(device: Device, base: int, end: int) -> Iterator[StoredFrame]:
    """All of a segment. Raises CorruptJournal."""
    reader = SegmentReader(device, base)
    position, previous = base, None
    while position < end:
        frame, reason = frame_at(reader, position - base, end)
        if frame is not None and previous is not None and frame.header.previous != previous:
            frame, reason = None, "it does not follow the frame before it"
        if frame is None:
            raise CorruptJournal(
                f"{names.index(base)} is missing and cannot be built again: "
                f"{names.segment(base)}, byte {position - base}: {reason}; restore the files, or "
                "the folder, from a backup"
            )
        position, previous = frame.header.end, frame.header.checksum
        yield frame

"""The volumes and sealed segments, in the journal's order: which has what of a partition.

Each tells of every partition how far it had come at its end, so that they are searched by halving.
Nothing is kept in memory per batch but of segments that have no file yet or frames that are held;
of the others, pages of index files that lookups have used. A lookup raises NotLoaded if it needs a
page that only the disk has.
"""

import sys
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.damaged_index import DamagedIndex
from semel.journal.index_files import AnySealedIndex, open_index
from semel.journal.index_in_memory import IndexInMemory
from semel.journal.pages import Pages, ReadNow, damaged
from semel.journal.rows import Location, Rows
from semel.journal.sealed import NO_ENTRY, SegmentIndex
from semel.journal.stretch import Stretch
from semel.log.transactions import AbortedIndex, AbortedTransaction
from semel.types import Buffer

INDEXES_MAX: Final = 128
"""Sealed indexes whose checksums are kept at hand."""


class Containers:
    """Law: what a partition has in one of them lies behind all that it has in those before."""

    def __init__(self, read_now: ReadNow) -> None:
        self._bases = array("q")
        """Of the volumes, by the journal's order, then of the sealed segments behind them."""
        self._volume_count = 0
        self._unpublished: dict[int, IndexInMemory] = {}
        """By base, oldest first."""
        self._published: dict[int, IndexInMemory] = {}
        """Those with frames that are held in memory, so that who reads these needs no file to find
        them. All are older than those unpublished."""
        self._not_held_to = sys.maxsize
        """No frame that begins at this position or before it is held."""
        self.are_volumes_far = False
        """Their indexes are waited for, whatever lies beside the segments under their names."""
        self._read_given = read_now
        self._pages = Pages(self._read_now)
        self._files: OrderedDict[int, AnySealedIndex] = OrderedDict()
        self._last_found = 0
        """The number of the container that was found last: who reads many partitions is often in
        one."""

    def _read_now(self, name: str, offset: int, size: int) -> Buffer | None:
        if self.are_volumes_far and name.endswith(names.VOLUME_INDEX):
            return None
        return self._read_given(name, offset, size)

    # Which there are.

    def bases(self) -> list[int]:
        return self._bases.tolist()

    def restore(self, bases: Sequence[int]) -> None:
        self._bases = array("q", bases)

    def add(self, index: IndexInMemory) -> None:
        """A segment that was just sealed."""
        self._unpublished[index.base] = index
        self._bases.append(index.base)

    def unpublished(self) -> list[IndexInMemory]:
        return list(self._unpublished.values())

    def in_memory(self, base: int) -> IndexInMemory | None:
        return self._unpublished.get(base) or self._published.get(base)

    def rows_in_memory(self, partition: int) -> Iterator[Rows]:
        for index in (*self._published.values(), *self._unpublished.values()):
            rows = index.rows.get(partition)
            if rows is not None:
                yield rows

    def published(self, base: int) -> IndexInMemory:
        """Its file is there to stay; the rows are needed for the frames alone that are held."""
        index = self._unpublished.pop(base)
        if index.end > self._not_held_to:
            self._published[base] = index
        directory = index.directory
        assert directory is not None
        for later in self._unpublished.values():
            if later.before is index:
                later.before = directory
        return index

    def not_held_to(self, position: int) -> None:
        self._not_held_to = position
        for base, index in list(self._published.items()):
            if index.end > position:
                break
            del self._published[base]

    def release_before(self, base: int) -> None:
        first = self._volume_count
        stop = bisect_left(self._bases, base, first)
        for each in self._bases[first:stop]:
            assert each not in self._unpublished
            self._forget(each)
        del self._bases[first:stop]
        self._last_found = 0

    def settle(self, volumes: Sequence[int], end: int) -> None:
        for base in self._bases[: self._volume_count]:
            if base not in volumes:
                self._forget(base)
        settled = bisect_left(self._bases, end, self._volume_count)
        for base in self._bases[self._volume_count : settled]:
            self._forget(base)
        self._bases = array("q", volumes) + self._bases[settled:]
        self._volume_count = len(volumes)
        self._last_found = 0

    def _forget(self, base: int) -> None:
        self._published.pop(base, None)
        self._files.pop(base, None)

    # Lookups, over all of them.

    def spans(self, partition: int, offset: int, floor: int) -> Iterator[Stretch]:
        """All batches from the first that ends at or behind this offset, and where they lie.

        Those that begin before `floor` are not looked at: compaction has replaced them.
        """
        for _, stretch, row in self._stretches(partition, offset, floor):
            yield from stretch.in_cuts(row)

    def begun(self, partition: int, offset: int) -> tuple[Stretch, int] | None:
        """Rows at hand, and which of them is the first that `spans` gives; None if that takes more
        to tell. Where most reads of old data begin, and end."""
        found = self._row(partition, offset)
        if found is None:
            return None
        _, stretch, row = found
        if stretch is None or row < stretch.first or not stretch.is_at_hand:
            return None
        return stretch, row + stretch.ends_before(row, offset)

    def bases_from(self, partition: int, offset: int) -> list[int]:
        """Of those with batches that `spans` gives."""
        return [self._bases[number] for number, _, _ in self._stretches(partition, offset, 0)]

    def last_begun(self, partition: int, offset: int) -> Location | None:
        """The last batch to begin at or before this offset, which it may not reach."""
        found = self._row(partition, offset)
        if found is None:
            return None
        number, stretch, row = found
        if stretch is None or row < stretch.first:
            earlier = self._last_before(partition, number)
            if earlier is None:
                return None
            stretch = earlier[1]
            row = stretch.stop - 1
        return stretch.location(row)

    def last_settled_offset(self, partition: int) -> int | None:
        """The base offset of its last batch up to where the journal is settled."""
        if not self._volume_count:
            return None
        index, entry = self._with_entry(self._volume_count - 1, partition)
        return None if entry == NO_ENTRY else index.last_offset(entry)

    def bytes_before(self, partition: int, offset: int, floor: int) -> int | None:
        """Of all batches before the first that `spans` gives, with those that are gone; None if it
        gives none."""
        for number, stretch, row in self._stretches(partition, offset, floor):
            index, entry = self._with_entry(number, partition)
            at_end = index.byte_count(entry)
            return at_end - stretch.bytes_from(row)
        return None

    def offset_with_bytes(self, partition: int, byte_count: int, total: int) -> int | None:
        """The base offset of the last batch from which on there are so many bytes at least, of the
        `total` with those that are gone and those behind; None if none of these batches has."""
        before = total - byte_count
        """The batch must not begin behind so many bytes."""
        for index, stretch in self._stretches_from(
            partition, lambda index, entry: index.byte_count(entry) > before
        ):
            behind = total - index.byte_count(index.entry(partition))
            return stretch.offset_with_bytes(byte_count - behind)
        return None

    def first_at_or_after(
        self, partition: int, timestamp_ms: int, from_offset: int
    ) -> Location | None:
        """The first batch as young as this, of those that begin at the offset or later."""
        low = self._first_reaching(partition, from_offset)
        if low is None:
            return None
        for _, stretch in self._stretches_from(
            partition, lambda index, entry: index.timestamp_max(entry) >= timestamp_ms, low
        ):
            row = stretch.row_of_time_from(timestamp_ms, from_offset)
            if row < stretch.stop:
                return stretch.location(row)
        return None

    def offset_behind(self, partition: int, position: int) -> int | None:
        """The base offset of its first batch at or behind this position of the journal, at which a
        segment begins."""
        first = bisect_left(self._bases, position, self._volume_count)
        last_before = self._last_offset_before(partition, first)
        for _, stretch in self._stretches_from(
            partition, lambda index, entry: index.last_offset(entry) > last_before, first
        ):
            return stretch.base_offsets[stretch.first]
        return None

    def gather_aborted(
        self, partition: int, start: int, end: int, found: list[AbortedTransaction]
    ) -> bool:
        """Those with a record or marker in [start, end), also if begun before. True if none that
        was aborted later can overlap."""
        recent = self._recent(partition, start)
        number = self._first_reaching(partition, start, recent or 0)
        if number is None:
            return False
        count = self._aborted_count_before(partition, number)
        # From one that has any to the next: there may be very many without.
        while (number := self._first_with_more_aborted(partition, count, number)) is not None:
            index, entry = self._with_entry(number, partition)
            for piece in index.aborted_from(entry, start):
                if piece.gather(start, end, found):
                    return True
            count = index.aborted_count(entry)
        return False

    def aborted_pieces(self, partition: int, start: int, end: int) -> list[AbortedIndex]:
        """All whose markers lie in [start, end), with others of the same segments."""
        found: list[AbortedIndex] = []
        number = self._first_reaching(partition, start)
        if number is None:
            return found
        count = self._aborted_count_before(partition, number)
        while (number := self._first_with_more_aborted(partition, count, number)) is not None:
            index, entry = self._with_entry(number, partition)
            found += index.aborted_from(entry, start)
            if index.last_offset(entry) >= end:
                break
            count = index.aborted_count(entry)
        return found

    # By their numbers, from the oldest on.

    def _aborted_count_before(self, partition: int, number: int) -> int:
        """Of all before this one."""
        if not number:
            return 0
        recent = self.in_memory(self._bases[number])
        rows = None if recent is None else recent.rows.get(partition)
        if rows is not None:
            return rows.earlier_aborted_count
        earlier, entry = self._with_entry(number - 1, partition)
        return 0 if entry == NO_ENTRY else earlier.aborted_count(entry)

    def _first_with_more_aborted(self, partition: int, count: int, low: int) -> int | None:
        return self._first(partition, lambda index, entry: index.aborted_count(entry) > count, low)

    def _last_offset_before(self, partition: int, number: int) -> int:
        """Where its last batch begins that lies before this one; below all if there is none."""
        if not number:
            return -1
        index, entry = self._with_entry(number - 1, partition)
        return -1 if entry == NO_ENTRY else index.last_offset(entry)

    def _stretches(
        self, partition: int, offset: int, floor: int
    ) -> Iterator[tuple[int, Stretch, int]]:
        """Those with batches that `spans` gives, the partition's rows there, and the first of them
        that counts."""
        begin = self._row(partition, offset)
        if begin is None:
            return
        number, stretch, row = begin
        if stretch is None or row < stretch.first:
            # It lies in the last batch of an earlier one, or in no batch before these.
            earlier = self._last_before(partition, number)
            if earlier is not None:
                its_number, its_stretch = earlier
                last_row = its_stretch.stop - 1
                if _counts(its_stretch, last_row, offset, floor):
                    yield its_number, its_stretch, last_row
            row = 0 if stretch is None else stretch.first
        elif not _counts(stretch, row, offset, floor):
            row += 1
        while True:
            if stretch is not None and row < stretch.stop:
                yield number, stretch, row
            following = self._first_behind(partition, number)
            if following is None:
                return
            number = following
            index, entry = self._with_entry(number, partition)
            stretch = index.stretch(entry)
            row = 0 if stretch is None else stretch.first

    def _stretches_from(
        self, partition: int, reached: Callable[[SegmentIndex, int], bool], low: int = 0
    ) -> Iterator[tuple[SegmentIndex, Stretch]]:
        """The partition's rows from the first on at whose end it had come that far."""
        number = self._first(partition, reached, low)
        while number is not None:
            index, entry = self._with_entry(number, partition)
            stretch = index.stretch(entry)
            if stretch is not None:
                yield index, stretch
            # If there are none, it has come so far in what was given up.
            number = self._first_behind(partition, number)

    def _row(self, partition: int, offset: int) -> tuple[int, Stretch | None, int] | None:
        """The one to look for this offset in, the partition's rows there, and the last of them to
        begin at or before it. None if none has the partition."""
        recent = self._recent(partition, offset)
        if recent is not None:
            index, entry = self._with_entry(recent, partition)
            stretch = index.stretch(entry)
            assert stretch is not None
            return recent, stretch, stretch.row_of(offset)
        if self._last_found < len(self._bases):
            index, entry = self._with_entry(self._last_found, partition)
            if entry != NO_ENTRY and offset <= index.last_offset(entry):
                stretch = index.stretch(entry)
                row = -1 if stretch is None else stretch.row_of(offset)
                if stretch is not None and row >= stretch.first:
                    return self._last_found, stretch, row
        number = self._with_offset(partition, offset)
        if number is None:
            return None
        index, entry = self._with_entry(number, partition)
        stretch = index.stretch(entry)
        return number, stretch, -1 if stretch is None else stretch.row_of(offset)

    def _last_before(self, partition: int, number: int) -> tuple[int, Stretch] | None:
        """The last before this one that has rows of the partition, and these."""
        if not number:
            return None
        index, entry = self._with_entry(number - 1, partition)
        if entry == NO_ENTRY:
            return None
        stretch = index.stretch(entry)
        if stretch is not None:
            return number - 1, stretch
        base_offset = index.last_offset(entry)
        earlier = self._first_reaching(partition, base_offset)
        assert earlier is not None, "the one before this has come that far"
        index, entry = self._with_entry(earlier, partition)
        stretch = index.stretch(entry)
        # There are none if they are gone.
        return None if stretch is None else (earlier, stretch)

    def _recent(self, partition: int, offset: int) -> int | None:
        """The one in memory that has the last batch to begin at or before this offset, if it is in
        one of them: who reads the newest should not meet the files of old ones."""
        for number in range(len(self._bases) - 1, -1, -1):
            recent = self.in_memory(self._bases[number])
            if recent is None:
                return None
            rows = recent.rows.get(partition)
            if rows is not None and rows.base_offsets[0] <= offset:
                return number
        return None

    def _with_offset(self, partition: int, offset: int) -> int | None:
        """The one to look for this offset in, if any has the partition."""
        number = self._first_reaching(partition, offset)
        if number is None:
            newest = len(self._bases) - 1
            is_known = newest >= 0 and self._with_entry(newest, partition)[1] != NO_ENTRY
            return newest if is_known else None
        self._last_found = number
        return number

    def _first_behind(self, partition: int, number: int) -> int | None:
        """The next that has rows behind those of this one."""
        index, entry = self._with_entry(number, partition)
        base_offset = index.last_offset(entry)
        following = number + 1
        if following < len(self._bases):
            # Mostly it is this.
            index, entry = self._with_entry(following, partition)
            if entry != NO_ENTRY and index.last_offset(entry) > base_offset:
                return following
        return self._first(
            partition, lambda index, entry: index.last_offset(entry) > base_offset, following
        )

    def _first_reaching(self, partition: int, offset: int, low: int = 0) -> int | None:
        """The first whose last batch, or one before it, begins there or later."""
        return self._first(
            partition, lambda index, entry: index.last_offset(entry) >= offset, low, offset
        )

    def _first(
        self,
        partition: int,
        reached: Callable[[SegmentIndex, int], bool],
        low: int = 0,
        offset: int | None = None,
    ) -> int | None:
        """The first at whose end the partition had come that far: to the offset, if given."""
        count = high = len(self._bases)
        while low < high:
            middle = (low + high) // 2
            try:
                index, entry = self._with_entry(middle, partition)
                has_reached = entry != NO_ENTRY and reached(index, entry)
            except (CorruptJournal, OSError) as damage:
                low, high = self._beside(middle, partition, reached, low, high, offset, damage)
                continue
            if has_reached:
                high = middle
            else:
                low = middle + 1
        return low if low < count else None

    def _beside(
        self,
        damaged: int,
        partition: int,
        reached: Callable[[SegmentIndex, int], bool],
        low: int,
        high: int,
        offset: int | None,
        damage: CorruptJournal | OSError,
    ) -> tuple[int, int]:
        """Between which to go on where one cannot be read. Raises that if it may be the one."""
        behind = damaged + 1
        while behind < high:
            has_reached = self._has_reached(behind, partition, reached)
            if has_reached is False:
                return behind + 1, high
            if has_reached:
                if offset is not None and self._begins_by(behind, partition, offset):
                    return behind, behind
                break
            behind += 1
        before = damaged - 1
        while before >= low:
            has_reached = self._has_reached(before, partition, reached)
            if has_reached:
                return low, before
            if has_reached is False:
                break
            before -= 1
        raise damage

    def _begins_by(self, number: int, partition: int, offset: int) -> bool:
        """Whether it has a batch that begins at or before this offset."""
        index, entry = self._with_entry(number, partition)
        stretch = index.stretch(entry)
        return stretch is not None and stretch.base_offsets[stretch.first] <= offset

    def _has_reached(
        self, number: int, partition: int, reached: Callable[[SegmentIndex, int], bool]
    ) -> bool | None:
        """None if it is damaged."""
        try:
            index, entry = self._with_entry(number, partition)
            return entry != NO_ENTRY and reached(index, entry)
        except (CorruptJournal, OSError):
            return None

    def _with_entry(self, number: int, partition: int) -> tuple[SegmentIndex, int]:
        """What it tells, and where of this partition."""
        try:
            index = self._at(number)
            return index, index.entry(partition)
        except (CorruptJournal, OSError) as damage:
            before, behind = (self._readable(number, partition, step) for step in (-1, 1))
            beside = DamagedIndex(damage, before, behind)
            return beside, beside.entry(partition)

    def _readable(self, number: int, partition: int, step: int) -> SegmentIndex | None:
        """The next in this direction that tells of this partition."""
        number += step
        while 0 <= number < len(self._bases):
            try:
                index = self._at(number)
                index.entry(partition)
            except (CorruptJournal, OSError):
                number += step
            else:
                return index
        return None

    def _at(self, number: int) -> SegmentIndex:
        base = self._bases[number]
        recent = self.in_memory(base)
        return self.file_at(base) if recent is None else recent

    def file_at(self, base: int) -> AnySealedIndex:
        """Of any segment or volume that begins there, also one that holds what compaction left."""
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


def _counts(stretch: Stretch, row: int, offset: int, floor: int) -> bool:
    """Whether a batch reaches the offset and was not replaced. An older index does not tell where
    it ends."""
    if floor and stretch.base_offsets[row] < floor:
        return False
    return not stretch.ends_before(row, offset)

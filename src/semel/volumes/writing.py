"""Writes a volume: batches of many partitions, by partition and offset, and an index beside them.

A plan says what goes into it. Making it is a function from files to files that knows nothing else,
so that it can run in a process of its own, be killed anywhere, and leave no more than temporary
files. Every batch is checked before it is taken: the files it came from are removed afterwards.

Law: damage stays what it is. A batch that is damaged is settled bit for bit, where its old index
says that it belongs, so that its readers go on to find it damaged, and all the others find theirs.
Compaction would have to believe what it reads: it leaves such a partition alone. Where bytes cannot
be read at all, nothing is settled: whoever repairs the disk may get them back.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from semel.compaction.keys import KeyMap
from semel.compaction.passes import CompactionPass
from semel.errors import CorruptJournal, CorruptMessage
from semel.journal import names, sealed
from semel.journal.damaged_index import DamagedIndex
from semel.journal.file.device import LOST, Device
from semel.journal.index_files import AnySealedIndex, open_index
from semel.journal.pages import Pages
from semel.journal.rows import UNKNOWN_DELTA, Directory, Rows
from semel.journal.sealed import NO_ENTRY
from semel.journal.stretch import Stretch, copied
from semel.log.transactions import Aborted, AbortedIndex, AbortedTransaction
from semel.records import batch as record_batch
from semel.types import Buffer, Offset, ProducerId
from semel.volumes.plans import (
    Compacted,
    Compaction,
    CompactionPlan,
    Damaged,
    Made,
    MeasuringPlan,
    Portion,
    SettlingPlan,
    SourceSize,
    UnreadableBatch,
)

READ_SIZE_MAX: Final = 2**20
"""Bytes that are read at once, of batches that lie side by side."""
WRITE_SIZE: Final = 2**20
SYNC_SIZE: Final = 8 * 2**20
"""Bytes between two syncs: a disk that has much to write lets the journal's syncs wait."""
INDEX_BYTES_HELD: Final = 128 * 2**20
ROWS_AT_ONCE: Final = 4096

DAMAGES_TOLD_MAX: Final = 100


Steps = Generator[int, None, Made]
"""Gives the bytes written in each step, so that who runs it may take its time."""


def write(device: Device, plan: SettlingPlan) -> Steps:
    """Raises CorruptJournal, OSError."""
    indexes = _indexes(device)
    sources = [open_index(indexes, names.index_at(base)) for base in plan.sources]
    data = _File(device, names.volume(plan.volume) + plan.temporary)
    yield 0
    base = names.volume_base(plan.volume)
    rows_by_partition: dict[int, Rows] = {}
    damaged: list[Damaged] = []
    for portion in plan.portions():
        rows = Rows(None)
        for source in sources:
            for batches in _batches(device, source, portion):
                for batch in batches:
                    try:
                        _add_row(rows, batch.checked(), base + data.size)
                    except CorruptMessage as error:
                        _add_row_of_damaged(rows, batch, base + data.size)
                        if len(damaged) < DAMAGES_TOLD_MAX:
                            damaged.append(Damaged(portion.number, batch.in_words(error)))
                    data.add(batch.stored)
                if data.unwritten_bytes >= WRITE_SIZE:
                    yield data.write()
            _add_aborted(rows, source, portion)
        if rows.positions:
            rows_by_partition[portion.number] = rows
    yield data.write()
    data.sync()
    assert data.size <= names.VOLUME_SPAN
    directory = sources[-1].directory()
    _begin_where_they_stood(rows_by_partition, directory)
    content = yield from _encoded(directory, rows_by_partition, base, base + data.size)
    index = _File(device, names.volume_index(plan.volume) + plan.temporary)
    index.add(content)
    yield index.write()
    index.sync()
    return Made(data.size, index.size, damaged=tuple(damaged))


def compact(device: Device, plan: CompactionPlan) -> Steps:
    """As `write`, of partitions whose newest records alone stay."""
    data = _File(device, names.volume(plan.volume) + plan.temporary)
    yield 0
    base = names.volume_base(plan.volume)
    rows_by_partition: dict[int, Rows] = {}
    compacted: list[Compacted] = []
    damaged: list[Damaged] = []
    opened = _Opened(_indexes(device))
    for compaction in plan.compactions:
        before = data.size
        try:
            its_sources = _ItsSources(opened, plan.sources, compaction)
            rows, end = yield from _compact(device, its_sources, compaction, data, base)
        except (CorruptJournal, CorruptMessage) as error:
            # All of it stays where it is: of the others as much can be told as before.
            data.rewind(before)
            damaged.append(Damaged(compaction.number, str(error)))
            continue
        if rows.positions:
            rows_by_partition[compaction.number] = rows
        compacted.append(Compacted(compaction.number, end, data.size - before))
    yield data.write()
    data.sync()
    assert data.size <= names.VOLUME_SPAN
    content = yield from _encoded(Directory(), rows_by_partition, base, base + data.size)
    index = _File(device, names.volume_index(plan.volume) + plan.temporary)
    index.add(content)
    yield index.write()
    index.sync()
    return Made(data.size, index.size, tuple(compacted), tuple(damaged))


class _Opened:
    """Indexes by where their sources begin, each opened when somebody asks for it: one that is
    damaged must not keep those from their work who need others."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._indexes: dict[int, AnySealedIndex] = {}

    def at(self, base: int) -> AnySealedIndex:
        index = self._indexes.get(base)
        if index is None:
            index = self._indexes[base] = open_index(self._pages, names.index_at(base))
        return index


class _ItsSources:
    """Of one partition."""

    def __init__(self, opened: _Opened, bases: Sequence[int], compaction: Compaction) -> None:
        self.dirty = _with_dirty(opened, bases, compaction)
        self.all = self.dirty
        """Before them what the last pass has left."""
        if compaction.compacted_base is not None:
            self.all = [opened.at(compaction.compacted_base), *self.dirty]


def _with_dirty(
    opened: _Opened, bases: Sequence[int], compaction: Compaction
) -> list[AnySealedIndex]:
    """Those that can be read. Raises CorruptJournal if another may have something of what is dirty:
    those behind it tell."""
    found: list[AnySealedIndex] = []
    before: AnySealedIndex | None = None
    damage: CorruptJournal | None = None
    for base in bases:
        try:
            index = opened.at(base)
            index.entry(compaction.number)
        except CorruptJournal as error:
            if damage is None:
                damage, before = error, found[-1] if found else None
            continue
        if damage is not None and _tells_that_all_is_there(index, before, damage, compaction):
            damage = None
        found.append(index)
    if damage is not None:
        raise damage
    return found


def _tells_that_all_is_there(
    index: AnySealedIndex,
    before: AnySealedIndex | None,
    damage: CorruptJournal,
    compaction: Compaction,
) -> bool:
    """Whether nothing of what is dirty lies between those before the damage and this one. What
    begins later may lie there."""
    entry = index.entry(compaction.number)
    stretch = None if entry == NO_ENTRY else index.stretch(entry)
    if stretch is not None and stretch.base_offsets[stretch.first] <= compaction.first_dirty_offset:
        return True
    try:
        DamagedIndex(damage, before, index).entry(compaction.number)
    except CorruptJournal:
        if stretch is not None:
            raise
        return False
    return True


def _compact(
    device: Device, sources: _ItsSources, compaction: Compaction, data: "_File", volume_base: int
) -> Generator[int, None, tuple[Rows, int]]:
    """One partition: what the volume has of it, and up to where that is all."""
    rows = Rows(None)
    keys = yield from _keys(device, sources.dirty, compaction)
    compaction_pass = _pass_over(keys, compaction)
    for batch in compaction_pass.compact(_range(device, sources.all, compaction, keys.end_offset)):
        _add_row(rows, record_batch.read(batch), volume_base + data.size)
        data.add(batch)
        if data.unwritten_bytes >= WRITE_SIZE:
            yield data.write()
    if rows.positions:
        _add_aborted_left(rows, sources.all, compaction, keys.end_offset, compaction_pass)
    return rows, keys.end_offset


def _keys(
    device: Device, sources: Sequence[AnySealedIndex], compaction: Compaction
) -> Generator[int, None, KeyMap]:
    first_dirty_offset = Offset(compaction.first_dirty_offset)
    aborted = _transactions(compaction.dirty_aborted)
    keys = KeyMap(first_dirty_offset, aborted, buffer_size=compaction.buffer_size)
    dirty = _range(device, sources, compaction, compaction.end, first_dirty_offset)
    for number, batch in enumerate(dirty):
        if not keys.add(batch):
            break
        if number % ROWS_AT_ONCE == 0:
            yield 0
    return keys


def _transactions(aborted: Sequence[tuple[int, int]]) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(ProducerId(producer_id), Offset(first_offset))
        for producer_id, first_offset in aborted
    ]


def _pass_over(keys: KeyMap, compaction: Compaction) -> CompactionPass:
    return CompactionPass(
        keys,
        _transactions(compaction.aborted),
        now_ms=compaction.now_ms,
        delete_retention_ms=compaction.delete_retention_ms,
        # The batch that ends here stays, though empty, whatever ends follow: a reader who stops
        # before a gap would never come to its end.
        high_watermark=Offset(compaction.end),
        last_stable_offset=Offset(compaction.end),
    )


def _range(
    device: Device,
    sources: Sequence[AnySealedIndex],
    compaction: Compaction,
    end: int,
    start: int | None = None,
) -> Iterator[memoryview]:
    """The batches of a partition up to `end`, each once: what a pass has left before lies in the
    first source, and where it was written it does not count any more."""
    for source in sources:
        is_compacted = source.base == compaction.compacted_base
        first = compaction.start if is_compacted else compaction.first_dirty_offset
        portion = Portion(compaction.number, max(first, compaction.start, start or 0))
        for batches in _batches(device, source, portion):
            for batch in batches:
                if batch.base_offset >= end:
                    return
                batch.check_place()
                yield batch.stored


def _add_aborted_left(
    rows: Rows,
    sources: Sequence[AnySealedIndex],
    compaction: Compaction,
    end: int,
    compaction_pass: CompactionPass,
) -> None:
    """Those whose markers lie here; of the others the segments of their markers tell."""
    left = set(compaction_pass.aborted_left())
    ended = [_aborted(*row) for row in compaction.aborted_before]
    for source in sources:
        entry = source.entry(compaction.number)
        if entry == NO_ENTRY:
            continue
        is_compacted = source.base == compaction.compacted_base
        start = compaction.start if is_compacted else compaction.first_dirty_offset
        for piece in source.aborted_from(entry, start):
            ended += piece
    kept = AbortedIndex()
    for aborted in sorted(ended, key=lambda each: each.marker_offset):
        if aborted.marker_offset < end and aborted[:2] in left:
            kept.add(aborted)
    if len(kept):
        rows.aborted = kept


def _aborted(producer_id: int, first_offset: int, marker_offset: int, floor: int) -> Aborted:
    return Aborted(
        ProducerId(producer_id), Offset(first_offset), Offset(marker_offset), Offset(floor)
    )


def _indexes(device: Device) -> Pages:
    def read(name: str, offset: int, size: int) -> bytes:
        return _read_bytes(device, name, offset, size)

    return Pages(read, INDEX_BYTES_HELD)


def _read_bytes(device: Device, name: str, offset: int, size: int) -> bytes:
    try:
        return device.read(name, offset, size)
    except OSError as error:
        if error.errno in LOST:
            raise CorruptJournal(f"{name}, byte {offset}: {error.strerror}") from error
        raise


def measure(device: Device, plan: MeasuringPlan) -> list[SourceSize]:
    """Of each source. Raises OSError."""
    indexes = _indexes(device)
    starts = {portion.number: portion.start for portion in plan.portions()}
    return [_extent(indexes, names.index_at(base), starts) for base in plan.sources]


def _extent(indexes: Pages, name: str, starts: Mapping[int, int]) -> SourceSize:
    try:
        return _measured(open_index(indexes, name), starts)
    except CorruptJournal as error:
        return SourceSize(0, 0, str(error))


def _measured(source: AnySealedIndex, starts: Mapping[int, int]) -> SourceSize:
    live_bytes = all_bytes = 0
    for entry, number in enumerate(source.directory().partitions):
        stretch = source.stretch(entry)
        if stretch is None:
            continue
        sizes = copied(stretch.sizes, stretch.first, stretch.stop)
        all_bytes += sum(sizes)
        if number in starts:
            live_bytes += sum(sizes[first_live(stretch, starts[number]) - stretch.first :])
    return SourceSize(live_bytes, all_bytes)


def first_live(stretch: Stretch, start: int) -> int:
    """The row of the first batch that reaches this offset."""
    row = stretch.row_of(start)
    if row < stretch.first:
        return stretch.first
    return row + stretch.ends_before(row, start)


class _File:
    def __init__(self, device: Device, name: str) -> None:
        self._device = device
        self._name = name
        self._parts: list[Buffer] = []
        self._synced_size = 0
        self.size = 0
        """With what is not written yet."""
        self.unwritten_bytes = 0
        device.create(name)

    def add(self, part: Buffer) -> None:
        self._parts.append(part)
        self.unwritten_bytes += len(part)
        self.size += len(part)

    def rewind(self, size: int) -> None:
        """Take back what was added behind so many bytes."""
        written_size = self.size - self.unwritten_bytes
        while self.size > max(size, written_size):
            self.size -= len(self._parts.pop())
        if size < written_size:
            self._device.truncate(self._name, size)
            self._synced_size = min(self._synced_size, size)
            self.size = written_size = size
        self.unwritten_bytes = self.size - written_size

    def write(self) -> int:
        """Gives the number of bytes."""
        written = self.unwritten_bytes
        self._device.write(self._name, self.size - written, self._parts)
        self._parts = []
        self.unwritten_bytes = 0
        if self.size - self._synced_size >= SYNC_SIZE:
            self.sync()
        return written

    def sync(self) -> None:
        self._device.sync(self._name)
        self._synced_size = self.size


class _Batch(NamedTuple):
    """A batch as it is stored, and what the index of its source says of it."""

    stored: memoryview
    stretch: Stretch
    row: int
    base_offset: int

    def check_place(self) -> record_batch.BatchHeader:
        """That it is the one that was written there. Raises CorruptMessage.

        A checksum of Kafka's does not cover the offset, nor the size.
        """
        header = record_batch.read(self.stored)
        if (header.base_offset, header.size) != (self.base_offset, len(self.stored)):
            raise CorruptMessage(
                f"it tells of {header.size} bytes at offset {header.base_offset}, its index of "
                f"{len(self.stored)} at {self.base_offset}"
            )
        return header

    def checked(self) -> record_batch.BatchHeader:
        """Raises CorruptMessage."""
        header = self.check_place()
        record_batch.verify_checksum(self.stored, header)
        return header

    def in_words(self, error: CorruptMessage) -> str:
        return f"the batch at offset {self.base_offset} is damaged: {error}"


def _batches(device: Device, source: AnySealedIndex, portion: Portion) -> Iterator[list[_Batch]]:
    """Those of one source, some at a time."""
    entry = source.entry(portion.number)
    stretch = None if entry == NO_ENTRY else source.stretch(entry)
    if stretch is None:
        return
    name = names.data_at(source.base)
    row = first_live(stretch, portion.start)
    while row < stretch.stop:
        stop = min(row + ROWS_AT_ONCE, stretch.stop)
        some = stretch.without_pages(row, stop)
        shift = row - some.first
        for first, found in _read(device, name, source.base, some, portion.number):
            yield [
                _Batch(stored, stretch, at + shift, some.base_offsets[at])
                for at, stored in enumerate(found, first)
            ]
        row = stop


def _read(
    device: Device, name: str, base: int, some: Stretch, number: int
) -> Iterator[tuple[int, list[memoryview]]]:
    """From a row on: batches that lie side by side are read at once. Raises UnreadableBatch."""
    row = some.first
    while row < some.stop:
        first = row
        start = some.positions[row]
        sizes = [some.sizes[row]]
        end = start + sizes[0]
        row += 1
        while row < some.stop and some.positions[row] == end and end - start < READ_SIZE_MAX:
            sizes.append(some.sizes[row])
            end += sizes[-1]
            row += 1
        try:
            stored = memoryview(_read_bytes(device, name, start - base, end - start))
        except CorruptJournal:
            _find_unreadable(device, name, base, some, range(first, row), number)
            raise
        if len(stored) != end - start:
            raise CorruptJournal(f"{name}: cut at byte {start - base + len(stored)}")
        at = 0
        batches = []
        for size in sizes:
            batches.append(stored[at : at + size])
            at += size
        yield first, batches


def _find_unreadable(
    device: Device, name: str, base: int, some: Stretch, rows: range, number: int
) -> None:
    """Which batch it is. Raises UnreadableBatch."""
    for row in rows:
        try:
            _read_bytes(device, name, some.positions[row] - base, some.sizes[row])
        except CorruptJournal as error:
            offset = some.base_offsets[row]
            raise UnreadableBatch(f"the batch at offset {offset}: {error}", number) from error


def _add_row(rows: Rows, header: record_batch.BatchHeader, position: int) -> None:
    rows.timestamp_max = max(rows.timestamp_max, header.max_timestamp_ms)
    rows.timestamps.append(rows.timestamp_max)
    rows.base_offsets.append(header.base_offset)
    rows.sizes.append(header.size)
    rows.last_offset_deltas.append(header.last_offset_delta)
    rows.positions.append(position)


def _add_row_of_damaged(rows: Rows, batch: _Batch, position: int) -> None:
    """As its source tells it: a word of its own cannot be believed."""
    stretch, row = batch.stretch, batch.row
    rows.timestamp_max = max(rows.timestamp_max, stretch.timestamps[row])
    rows.timestamps.append(rows.timestamp_max)
    rows.base_offsets.append(batch.base_offset)
    rows.sizes.append(len(batch.stored))
    has_deltas = len(stretch.last_offset_deltas) > 0
    rows.last_offset_deltas.append(stretch.last_offset_deltas[row] if has_deltas else UNKNOWN_DELTA)
    rows.positions.append(position)


def _add_aborted(rows: Rows, source: AnySealedIndex, portion: Portion) -> None:
    entry = source.entry(portion.number)
    if entry == NO_ENTRY:
        return
    for piece in source.aborted_from(entry, portion.start):
        if rows.aborted is None:
            rows.aborted = AbortedIndex()
        rows.aborted.extend(piece)


def _begin_where_they_stood(rows_by_partition: Mapping[int, Rows], directory: Directory) -> None:
    """What is counted over all segments is the same at the end of the volume as it was at the end
    of its sources, whatever of it is gone."""
    for number, rows in rows_by_partition.items():
        standing = directory.standing(number)
        assert standing is not None
        rows.earlier_byte_count = standing.byte_count - sum(rows.sizes)
        kept = 0 if rows.aborted is None else len(rows.aborted)
        rows.earlier_aborted_count = standing.aborted_count - kept
        _raise_times(rows, standing.timestamp_max)


def _raise_times(rows: Rows, timestamp_max: int) -> None:
    """The last row knows the largest time of all, also if that lies in a batch which is gone: a
    search by time goes by what a source has said of its end."""
    if rows.timestamps[-1] < timestamp_max:
        rows.timestamps[-1] = timestamp_max
        rows.timestamp_max = timestamp_max


def _encoded(
    directory: Directory, rows_by_partition: Mapping[int, Rows], base: int, end: int
) -> Generator[int, None, bytearray]:
    encoding = sealed.encode(directory, rows_by_partition, (), base, end)
    while True:
        try:
            next(encoding)
        except StopIteration as done:
            _, content = done.value
            assert isinstance(content, bytearray)
            return content
        yield 0

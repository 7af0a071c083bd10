"""The one way to read a partition: from memory, from the journal, wherever its batches lie.

Who reads names partitions, offsets and sizes. Where a batch is stored, and what has to be waited
for, is known behind this alone. A read is made in two steps: what is found tells its size, from
which can be decided whether to read it yet.

Both steps can be taken at once if all they need is in memory. Otherwise they are awaited, and the
loop goes on meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from semel.errors import CorruptJournal
from semel.journal.names import VOLUMES_FROM
from semel.journal.pages import NotLoaded
from semel.journal.seam import Journal
from semel.lane.searches import NO_OFFSET, OldRetries, StoredBatches, TimedRecord, TimeSearch
from semel.lane.stored_bytes import StoredBytes
from semel.lane.view import PartitionView
from semel.log.partition import Partition
from semel.log.producers import NotRemembered
from semel.log.transactions import Aborted, AbortedTransaction, in_order
from semel.records import batch as record_batch
from semel.records.batch import NO_TIMESTAMP_MS, BatchHeader
from semel.types import Buffer, Offset, Position
from semel.volumes.store import VolumeStore

Result = TypeVar("Result")

Damage = CorruptJournal | OSError
"""Why a partition cannot be read. Others of the same read may be whole."""


class Wanted:
    """Batches of a partition from the one that holds an offset, that begin below a bound."""

    __slots__ = ("bound", "offset", "partition", "size_max")

    def __init__(
        self, partition: PartitionView, offset: Offset, bound: Offset, size_max: int
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.bound = bound
        self.size_max = size_max


class Found:
    """What there is to read of some partitions."""

    __slots__ = (
        "damage",
        "extents",
        "is_beside_producers",
        "is_cut",
        "old_size",
        "size",
        "sizes",
        "wanted",
    )

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self.wanted = wanted
        self.size = 0
        """Bytes of all of it."""
        self.extents: list[list[tuple[int, int]]] = []
        """For each that is wanted, where its batches lie. Of use to the log alone."""
        self.sizes: list[int] = []
        """For each, the bytes of its batches."""
        self.old_size = 0
        """Bytes of what is not in memory, as far as that is more than a little."""
        self.is_beside_producers: bool | None = None
        """It has such bytes, and others append meanwhile; None if it has none."""
        self.is_cut = False
        """There is more, which was left for the next time as others wait for the loop."""
        self.damage: dict[int, Damage] = {}
        """By the number of what was wanted."""

    def sorted_extents(self) -> list[tuple[int, int]]:
        """Of all of them, as they lie. Those of one partition need not rise: old ones lie in
        volumes, whose positions are behind all others."""
        if len(self.extents) == 1:
            only = self.extents[0]
            return only if only and only[0][0] < VOLUMES_FROM else sorted(only)
        return sorted(extent for extents in self.extents for extent in extents)


class Stored:
    """What was read of one partition."""

    __slots__ = ("aborted", "batches")

    def __init__(self, batches: list[Buffer], aborted: list[AbortedTransaction]) -> None:
        self.batches = batches
        self.aborted = aborted
        """Those that overlap these batches, also if begun before them, if that was asked for."""


NO_BATCHES = Stored([], [])

MOVES_MAX = 3
"""Batches may be settled in a volume, and that replaced by another, while they are being read."""


BACKFILL_BYTES: Final = 64 * 1024
"""Of old data in one answer beside producers, if a batch is not larger. It takes the loop about as
long as a sync takes."""

FREE_BYTES: Final = 16 * 1024
"""An answer with no more of old data takes no longer than others do."""

CALM_AFTER: Final = 32
"""Answers without a frame between them until none is expected: some 0.1 s. Were they more, who
reads a backlog and commits its offsets now and then would be taken for a producer."""

BACKFILL_PAUSE_S: Final = 0.002
"""Behind such an answer, in which producers have the loop for themselves; longer behind a larger
one."""

WRITE_AWAITED_S: Final = 0.001
"""So much longer at most, until something is written: while that is synced the loop is idle."""


class Backfill:
    """How much of old data one answer may have, and when it is given.

    To read, copy and send a megabyte takes the loop longer than a sync, and who reads old data
    asks for the next at once. So while others append, it is given in small answers, by turns, with
    pauses between them, and behind a write, where producers wait for the disk and not for the loop.
    How long others have not appended is counted and not timed, so that a slow disk is given longer.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._frames_seen: int | None = None
        """When old data was last asked for."""
        self._answers_since = CALM_AFTER
        self._turns: deque[tuple[asyncio.Future[None], int]] = deque()
        """Who waits, in their order, and for how many bytes; those who have gone as well, until it
        would be their turn."""
        self._free_at = 0.0
        """When the next may have its turn."""
        self._timer: asyncio.TimerHandle | None = None

    def is_beside_producers(self) -> bool:
        """Asked once for each answer."""
        frames = self._journal.frames_appended
        if self._frames_seen not in (None, frames):
            self._answers_since = 0
        self._frames_seen = frames
        self._answers_since += 1
        return self._answers_since <= CALM_AFTER

    async def turn(self, size: int) -> None:
        """Of an answer with so many bytes."""
        loop = asyncio.get_running_loop()
        if self._turns or loop.time() < self._free_at:
            called: asyncio.Future[None] = loop.create_future()
            self._turns.append((called, size))
            self._plan(loop)
            await called
        else:
            self._take(loop.time(), size)
        written: asyncio.Future[None] = loop.create_future()
        self._journal.when_written(Position(self._journal.written + 1), partial(_give, written))
        patience = loop.call_later(WRITE_AWAITED_S, _give, written)
        await written
        patience.cancel()

    def _take(self, now_s: float, size: int) -> None:
        self._free_at = now_s + BACKFILL_PAUSE_S * max(1.0, size / BACKFILL_BYTES)

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._turns and self._timer is None:
            self._timer = loop.call_at(self._free_at, self._call_next, loop)

    def _call_next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        while self._turns:
            called, size = self._turns.popleft()
            if not called.done():
                self._take(loop.time(), size)
                called.set_result(None)
                break
        self._plan(loop)


def _give(awaited: "asyncio.Future[None]") -> None:
    if not awaited.done():
        awaited.set_result(None)


class PartitionLog:
    def __init__(
        self, journal: Journal, volumes: VolumeStore, partitions: Mapping[int, Partition]
    ) -> None:
        self._stored = StoredBytes(journal, volumes)
        if volumes.is_far:
            journal.index.volumes_are_far()
        self._journal = journal
        self._backfill = Backfill(journal)
        self._partitions = partitions
        self._index = journal.index
        self._batches = StoredBatches(self._stored, journal.index)
        self._times = TimeSearch(self._batches, journal.index)
        self._old_retries = OldRetries(self._batches)

    # What there is.

    def find_now(self, wanted: Sequence[Wanted], size_max: int) -> Found | None:
        """By size at most this, but one batch at least. None if the disk has to be waited for."""
        found = Found(wanted)
        try:
            self._find(found, size_max)
        except NotLoaded:
            return None
        return found

    async def find(self, wanted: Sequence[Wanted], size_max: int) -> Found:
        """As `find_now`."""
        found = Found(wanted)
        await self._batches.look_up(lambda: self._find(found, size_max))
        return found

    def _find(self, found: Found, size_max: int) -> None:
        """Goes on where it was left."""
        for number in range(len(found.extents), len(found.wanted)):
            wanted = found.wanted[number]
            offset, bound, left = wanted.offset, wanted.bound, wanted.size_max
            if left > size_max - found.size:  # noqa: PLR1730 - a call less for each one.
                left = size_max - found.size
            extents: list[tuple[int, int]] = []
            if offset < bound and (left > 0 or found.size == 0):
                try:
                    extents = self._index.extents(wanted.partition.number, offset, bound, left)
                except (CorruptJournal, OSError) as damage:
                    found.damage[number] = damage
            size = 0
            for _, batch_size in extents:
                size += batch_size
            if found.size + size > FREE_BYTES and extents and self._is_old(extents):
                size = self._cut(found, extents, size)
            # The first batch of all is given whole whatever its size, or its reader would never
            # get past it; the others have to fit.
            if size > left and found.size > 0:
                extents, size = [], 0
            found.extents.append(extents)
            found.sizes.append(size)
            found.size += size

    def _is_old(self, extents: list[tuple[int, int]]) -> bool:
        """Volumes lie behind everything, and have what is oldest."""
        first = extents[0][0]
        return first < self._journal.held_from or first >= VOLUMES_FROM

    def _cut(self, found: Found, extents: list[tuple[int, int]], size: int) -> int:
        """Leave of old data what makes a small answer, if it has to be, but one batch at least in
        each; returns its size."""
        if found.is_beside_producers is None:
            found.is_beside_producers = self._backfill.is_beside_producers()
        if found.is_beside_producers:
            left = BACKFILL_BYTES - found.old_size
            while size > left and len(extents) > (0 if found.old_size else 1):
                size -= extents.pop()[1]
                found.is_cut = True
        found.old_size += size
        return size

    # Reading it.

    def read_now(self, found: Found, *, with_aborted: bool) -> list[Stored | Damage] | None:
        """For each that was wanted. None if the disk, or its turn, has to be waited for."""
        if found.is_beside_producers:
            return None
        extents = found.sorted_extents()
        try:
            batches = self._stored.read_now(extents)
            if batches is None:
                return None
            return self._shared_out(found, extents, batches, with_aborted)
        except (NotLoaded, CorruptJournal, OSError):
            return None

    def _shared_out(
        self,
        found: Found,
        extents: list[tuple[int, int]],
        batches: list[memoryview],
        with_aborted: bool,
    ) -> list[Stored | Damage]:
        is_in_order = extents is found.extents[0]
        by_extent = {} if is_in_order else dict(zip(extents, batches, strict=True))
        shared: list[Stored | Damage] = []
        for number, its_extents in enumerate(found.extents):
            if its_extents:
                its_batches: list[Buffer]
                if is_in_order:
                    its_batches = [*batches]
                else:
                    its_batches = [by_extent[extent] for extent in its_extents]
                aborted: list[AbortedTransaction] = []
                if with_aborted:
                    wanted = found.wanted[number]
                    if self._may_have_aborted(wanted.partition):
                        aborted = self._aborted(wanted.partition, wanted.offset, _end(its_batches))
                shared.append(Stored(its_batches, aborted))
            else:
                shared.append(found.damage.get(number, NO_BATCHES))
        return shared

    async def read(self, found: Found, *, with_aborted: bool) -> list[Stored | Damage]:
        """As `read_now`. Together: batches that were written at one time lie side by side, whosever
        they are. Only if that fails each partition is read alone."""
        if found.is_beside_producers:
            await self._backfill.turn(found.old_size)
        extents = found.sorted_extents()
        try:
            batches = await self._stored.read_all(extents)
            return await self._batches.look_up(
                lambda: self._shared_out(found, extents, batches, with_aborted)
            )
        except (CorruptJournal, OSError):
            pass
        return [
            found.damage.get(number) or await self._read_alone(wanted, extents, with_aborted)
            for number, (wanted, extents) in enumerate(
                zip(found.wanted, found.extents, strict=True)
            )
        ]

    async def _read_alone(
        self, wanted: Wanted, extents: list[tuple[int, int]], with_aborted: bool
    ) -> Stored | Damage:
        if not extents:
            return NO_BATCHES
        try:
            batches = await self._read_batches(wanted, extents)
            if not batches or not with_aborted:
                return Stored(batches, [])
            return Stored(
                batches, await self.aborted(wanted.partition, wanted.offset, _end(batches))
            )
        except (CorruptJournal, OSError) as damage:
            return damage

    async def _read_batches(self, wanted: Wanted, extents: list[tuple[int, int]]) -> list[Buffer]:
        """Empty if they are deleted by now."""
        for _ in range(MOVES_MAX):
            try:
                return await self._read_in_order(extents)
            except FileNotFoundError:
                if wanted.offset < wanted.partition.log_start_offset:
                    return []
            extents = await self._batches.look_up(
                lambda: self._index.extents(
                    wanted.partition.number, wanted.offset, wanted.bound, wanted.size_max
                )
            )
        return await self._read_in_order(extents)

    async def _read_in_order(self, extents: list[tuple[int, int]]) -> list[Buffer]:
        rising = sorted(extents)
        found = dict(zip(rising, await self._stored.read_all(rising), strict=True))
        return [found[extent] for extent in extents]

    async def aborted(
        self, partition: PartitionView, start: Offset, end: Offset
    ) -> list[AbortedTransaction]:
        """Those with a record or marker in [start, end), also if begun before; by first offset."""
        return await self._batches.look_up(lambda: self._aborted(partition, start, end))

    async def aborted_by_markers(
        self, partition: PartitionView, start: Offset, end: Offset
    ) -> list[Aborted]:
        """Those whose markers lie in [start, end), in the order of these, as the index has them;
        what checkpoints of old have told of is in the lane's state."""
        return await self._batches.look_up(
            lambda: self._index.aborted_by_markers(partition.number, start, end)
        )

    def _may_have_aborted(self, partition: PartitionView) -> bool:
        """False if there is nothing to look for, as in most partitions."""
        known = self._partitions.get(partition.number)
        if known is not None and known.transactions.aborted_before is not None:
            return True
        return self._index.may_have_aborted(partition.number)

    def _aborted(
        self, partition: PartitionView, start: Offset, end: Offset
    ) -> list[AbortedTransaction]:
        found = self._index.aborted(partition.number, start, end)
        known = self._partitions.get(partition.number)
        before = None if known is None else known.transactions.aborted_before
        return in_order([*before.overlapping(start, end), *found]) if before else found

    # Searching.

    async def find_time(
        self, partition: PartitionView, timestamp_ms: int, bound: Offset
    ) -> TimedRecord | None:
        """The first record below the bound that is not older than this.

        Raises CorruptJournal, CorruptMessage or OSError, as all searches do.
        """
        return await self._times.first_at_or_after(partition, timestamp_ms, bound)

    async def youngest(self, partition: PartitionView, bound: Offset) -> TimedRecord | None:
        """The first record below the bound that has the largest timestamp of all."""
        return await self._times.youngest(partition, bound)

    async def find_original(
        self, partition: PartitionView, header: BatchHeader, fingerprint: int, missed: NotRemembered
    ) -> Offset | None:
        """The offset of the stored batch that an old retry repeats, if there is one."""
        return await self._old_retries.find_original(partition, header, fingerprint, missed)

    async def bytes_of(self, partition: PartitionView) -> int:
        """Of the batches that are shown."""
        return await self._count(
            partition,
            lambda: self._index.bytes_from(partition.number, partition.log_start_offset),
        )

    async def bytes_between(self, partition: PartitionView, start: Offset, end: Offset) -> int:
        """Of the batches from the one that reaches `start` to the one that reaches `end`."""
        return await self._count(
            partition,
            lambda: (
                self._index.bytes_from(partition.number, start)
                - self._index.bytes_from(partition.number, end)
            ),
        )

    async def bytes_in_journal(self, partition: PartitionView, end: int) -> int:
        """Of the batches that are shown and lie in no volume, before this position."""
        number, start = partition.number, partition.log_start_offset
        return await self._count(
            partition, lambda: self._index.bytes_in_journal(number, start, end)
        )

    async def _count(self, partition: PartitionView, ask: Callable[[], Result]) -> Result:
        """A lookup in the index that counts bytes."""
        while self._index.sum_up(partition.number):
            await self._batches.pause()
        return await self._batches.look_up(ask)

    async def time_at(self, partition: PartitionView, offset: Offset) -> int | None:
        """When the first batch that reaches this offset was begun."""
        found = await self._batches.look_up(lambda: self._index.find(partition.number, offset))
        return None if found is None else (await self._batches.header(found)).base_timestamp_ms

    async def containers_from(self, number: int, offset: int) -> list[int]:
        """Where the volumes and sealed stretches begin that have batches of a partition from this
        offset on."""
        return await self._batches.look_up(lambda: self._index.containers_from(number, offset))

    async def offset_behind(self, partition: PartitionView, position: int) -> Offset | None:
        """Of its first batch at or behind this position of the journal."""
        found = await self._batches.look_up(
            lambda: self._index.offset_behind(partition.number, position)
        )
        return None if found is None else Offset(found)

    # What is kept no longer.

    async def first_kept(
        self, partition: PartitionView, youngest_gone_ms: int | None, byte_count: int | None
    ) -> Offset:
        """The offset from which on a partition is kept, if what is not younger than this goes, and
        what is not needed for so many bytes; None for each that does not count.

        Whole batches go, the oldest first: one that is young enough keeps all behind it.
        """
        first = partition.log_start_offset
        if youngest_gone_ms is not None:
            first = max(first, await self._first_younger(partition, youngest_gone_ms))
        if byte_count is not None:
            number, start = partition.number, partition.log_start_offset
            kept = await self._count(
                partition, lambda: self._index.offset_with_bytes(number, byte_count, start)
            )
            if kept is not None:
                first = max(first, Offset(kept))
        return first

    async def _first_younger(self, partition: PartitionView, youngest_gone_ms: int) -> Offset:
        number, start, end = (
            partition.number,
            partition.log_start_offset,
            partition.log_end_offset,
        )
        oldest = await self._batches.first(number, start)
        if oldest is None:
            return end
        found = await self._batches.first_at_or_after(number, youngest_gone_ms + 1, start)
        if found != oldest:
            # A batch without a time may be of any: it goes with one behind it, not by itself.
            first = Offset(end if found is None else found.base_offset)
            timed = await self._batches.first_at_or_after(number, 0, start)
            is_any_old = timed is not None and timed.base_offset < first
            return first if is_any_old else start
        # The index knows the largest time up to a batch. If that is of one deleted since, the
        # batches themselves have to be asked.
        behind = NO_OFFSET
        while some := await self._batches.few(number, start, end, behind):
            for location in some:
                header = await self._batches.header(location)
                if not NO_TIMESTAMP_MS < header.max_timestamp_ms <= youngest_gone_ms:
                    return Offset(location.base_offset)
            behind = some[-1].base_offset
        return end

    async def position_in_journal(self, partition: PartitionView) -> int | None:
        """Of the first batch that is shown and lies in no volume; None if none does."""
        return await self._batches.look_up(
            lambda: self._index.position_in_journal(partition.number, partition.log_start_offset)
        )


def _end(batches: Sequence[Buffer]) -> Offset:
    """Not those behind these batches: in a log with many aborts, each read would bring all that
    are to come."""
    return Offset(record_batch.read(batches[-1]).last_offset + 1)

"""Searches through the batches of a partition: by offset, by time, for the original of a retry.

None holds the loop up. What is in memory is found and read at once. A search through many batches
takes them a few at a time and lets other searches and all else go between.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from semel.errors import CorruptMessage
from semel.journal.index import BatchIndex
from semel.journal.pages import NotLoaded
from semel.journal.rows import Location
from semel.lane.stored_bytes import StoredBytes
from semel.lane.view import PartitionView
from semel.log.producers import NotRemembered
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.records.compression import Compression, UnpacksTooLarge
from semel.records.records import RecordTimes, unpack
from semel.types import Buffer, Offset

BATCHES_AT_ONCE: Final = 16
"""Batches that a search looks at before it pauses."""

COLD_LOOKUPS_AT_ONCE: Final = 8
"""What these have loaded stays in memory until they are done; others wait for them."""

NO_OFFSET: Final = -1

RECORDS_OPENED_MAX: Final = 100_000
"""A batch that claims more is answered with its first offset: real ones are far smaller, and a
few compressed bytes could claim millions."""

UNPACKED_SIZE_MAX: Final = 4 * 2**20
"""Bytes. A batch that unpacks to more is answered so too: all of it would be held in memory.
Clients send 1 MiB at most unless they are told to send more."""

RECORDS_AT_ONCE: Final = 1_000
"""Looked at before a pause."""

BATCHES_OPEN_MAX: Final = 4
"""What they unpack to stays in memory until they are looked through; others wait for them."""

OLD_RETRY_BATCHES_MAX: Final = 4096
OLD_RETRY_BYTES_MAX: Final = 16 * 2**20
ANSWERS_KEPT_MAX: Final = 1024

Result = TypeVar("Result")


class StoredBatches:
    """Batches of the journal by partition and offset, wherever they lie."""

    def __init__(self, stored: StoredBytes, index: BatchIndex) -> None:
        self._stored = stored
        self._index = index
        self._cold_lookups = asyncio.Semaphore(COLD_LOOKUPS_AT_ONCE)
        self._searching = asyncio.Lock()

    async def look_up(self, ask: Callable[[], Result]) -> Result:
        """What a lookup in the index gives; it is tried again when what it misses is loaded."""
        try:
            return ask()
        except NotLoaded as missing:
            async with self._cold_lookups:
                await self._load(missing)
                while True:
                    try:
                        return ask()
                    except NotLoaded as another:
                        await self._load(another)

    async def _load(self, missing: NotLoaded) -> None:
        try:
            missing.keep(await self._stored.read_index(missing.name, missing.offset, missing.size))
        except Exception as error:  # noqa: BLE001 - who asks again is told what it is.
            missing.fail(error)

    async def last_begun(self, number: int, offset: int) -> Location | None:
        """The last batch of this partition to begin at or before the offset."""
        return await self.look_up(lambda: self._index.last_begun(number, offset))

    async def first(self, number: int, start: int) -> Location | None:
        """The first batch that ends at or behind `start`."""
        return await self.look_up(lambda: self._index.find(number, start))

    async def first_at_or_after(
        self, number: int, timestamp_ms: int, start: int
    ) -> Location | None:
        """The first batch as young as this, or behind one that was, of those that end at or behind
        `start`."""
        return await self.look_up(
            lambda: self._index.first_at_or_after(number, timestamp_ms, start)
        )

    async def few(
        self, number: int, start: int, end: int, behind: int = NO_OFFSET
    ) -> list[Location]:
        """The first batches that end at or behind `start`, as far as they begin below `end`.

        Who has seen some asks for those `behind` the base offset of the last. Pauses before.
        """
        await self.pause()
        found = await self.look_up(
            lambda: self._index.batches(number, max(start, behind), end, BATCHES_AT_ONCE + 1)
        )
        return [each for each in found if each.base_offset > behind][:BATCHES_AT_ONCE]

    async def pause(self) -> None:
        """Return when the caller may look at a few batches more.

        However many search, at most one of them does so in each tick of the loop, whoever has
        waited longest: all others wait for one and not for as many as there are searches.
        """
        await self._searching.acquire()
        asyncio.get_running_loop().call_soon(self._searching.release)

    async def read(self, location: Location) -> Buffer:
        """Raises CorruptJournal or OSError."""
        return await self._stored.read(location.position, location.size)

    async def header(self, location: Location) -> BatchHeader:
        return record_batch.read_header(
            await self._stored.read(location.position, record_batch.HEADER_SIZE)
        )


# By time


class TimedRecord(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimeSearch:
    """Finds records by their time: the first at or after one, and the youngest of all.

    The index knows the youngest record of each batch; the batch that may hold the one that is
    looked for is opened, and its records are looked at a few at a time. Each raises CorruptJournal,
    CorruptMessage or OSError if a batch cannot be read.
    """

    def __init__(self, batches: StoredBatches, index: BatchIndex) -> None:
        self._batches = batches
        self._index = index
        self._opening = asyncio.Semaphore(BATCHES_OPEN_MAX)

    async def first_at_or_after(
        self, partition: PartitionView, timestamp_ms: int, end: Offset
    ) -> TimedRecord | None:
        """The first readable record whose timestamp is not below `timestamp_ms`."""
        start = partition.log_start_offset
        first = await self._batches.first_at_or_after(partition.number, timestamp_ms, start)
        if first is None:
            return None
        start = max(start, Offset(first.base_offset))
        # Mostly the first batch has it. But its young records may have been deleted, or all of them
        # compacted away, and batches need not stand in the order of their times.
        lot = await self._batches.few(partition.number, start, end)
        while lot:
            for location in lot:
                header = await self._batches.header(location)
                if header.record_count and header.max_timestamp_ms >= timestamp_ms:
                    found = await self._look_into(location, timestamp_ms, start)
                    if found is not None:
                        return found
            lot = await self._batches.few(partition.number, start, end, lot[-1].base_offset)
        return None

    async def youngest(self, partition: PartitionView, end: Offset) -> TimedRecord | None:
        """The first readable record that has the largest timestamp of all."""
        timestamp_ms = self._index.timestamp_max(partition.number)
        if timestamp_ms is None:
            return None
        start = partition.log_start_offset
        first = await self._batches.first_at_or_after(partition.number, timestamp_ms, start)
        if first is not None and start <= first.base_offset < end:
            header = await self._batches.header(first)
            if header.max_timestamp_ms >= timestamp_ms:
                found = await self.first_at_or_after(partition, timestamp_ms, end)
                if found is not None:
                    return found
        # The youngest is deleted, compacted away, or not yet to be read.
        timestamp_ms = await self._timestamp_max(partition, end)
        if timestamp_ms is None:
            return None
        return await self.first_at_or_after(partition, timestamp_ms, end)

    async def _timestamp_max(self, partition: PartitionView, end: Offset) -> int | None:
        """Of the readable records, as their batches tell; None if there are none."""
        start = partition.log_start_offset
        largest: int | None = None
        lot = await self._batches.few(partition.number, start, end)
        while lot:
            for location in lot:
                timestamp_ms = await self._timestamp_max_of(location, start)
                if timestamp_ms is not None and (largest is None or timestamp_ms > largest):
                    largest = timestamp_ms
            lot = await self._batches.few(partition.number, start, end, lot[-1].base_offset)
        return largest

    async def _timestamp_max_of(self, location: Location, start: int) -> int | None:
        """Of the records of one batch from the offset `start` on."""
        header = await self._batches.header(location)
        if not header.record_count:
            return None
        if location.base_offset >= start:
            return header.max_timestamp_ms
        # Its youngest record may be one that is deleted.
        async with self._opening:
            times = await self._open(await self._batches.read(location), header)
            if times is None:
                return header.max_timestamp_ms
            largest: int | None = None
            while few := await self._few(times):
                left = [timestamp_ms for timestamp_ms, offset in few if offset >= start]
                if left and (largest is None or max(left) > largest):
                    largest = max(left)
            return largest

    async def _look_into(
        self, location: Location, timestamp_ms: int, start: int
    ) -> TimedRecord | None:
        """The first record of the batch at or behind the offset `start` that is young enough."""
        async with self._opening:
            batch = await self._batches.read(location)
            header = record_batch.read(batch)
            times = await self._open(batch, header)
            if times is None:
                offset = max(header.base_offset, start)
                return TimedRecord(header.max_timestamp_ms, offset, header.leader_epoch)
            while few := await self._few(times):
                for its_ms, offset in few:
                    if its_ms >= timestamp_ms and offset >= start:
                        return TimedRecord(its_ms, offset, header.leader_epoch)
        return None

    async def _open(self, batch: Buffer, header: BatchHeader) -> RecordTimes | None:
        """The records of a batch; None if they are not opened, so that its header has to do. Others
        have their turn first."""
        if header.is_log_append_time or header.record_count > RECORDS_OPENED_MAX:
            return None
        await self._batches.pause()
        try:
            return RecordTimes(*await _unpacked(batch, header))
        except UnpacksTooLarge:
            return None
        except CorruptMessage:
            return RecordTimes(header.replaced(record_count=0), b"")

    async def _few(self, times: RecordTimes) -> list[tuple[int, int]]:
        """Timestamp and offset of the next records; none at the end. Pauses before."""
        await self._batches.pause()
        try:
            return times.few(RECORDS_AT_ONCE)
        except CorruptMessage:
            # Records are not opened when they are produced, so a producer may have sent nonsense.
            # It harms who reads that batch, and must not hide those behind it.
            return []


async def _unpacked(batch: Buffer, header: BatchHeader) -> tuple[BatchHeader, bytes]:
    work = partial(unpack, batch, output_size_max=UNPACKED_SIZE_MAX)
    if header.compression == Compression.NONE:
        return work()
    # Few bytes can unpack to many, in as many milliseconds; nobody is to wait for them.
    return await asyncio.get_running_loop().run_in_executor(None, work)


# For the original of an old retry


class _Question(NamedTuple):
    """All that an answer depends on: below `below_offset` the log does not change."""

    partition_number: int
    from_offset: Offset
    below_offset: Offset
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    fingerprint: int


class OldRetries:
    """Looks for the original of a batch that is older than what its partition remembers.

    A retry that comes very late would otherwise be refused as out of order although it was stored.
    The search runs outside of any decision: what it finds is in the log and stays there. So the
    same question always has the same answer, and the latest answers are kept.
    """

    def __init__(self, batches: StoredBatches) -> None:
        self._batches = batches
        self._answers: OrderedDict[_Question, Offset | None] = OrderedDict()

    async def find_original(
        self, partition: PartitionView, wanted: BatchHeader, fingerprint: int, missed: NotRemembered
    ) -> Offset | None:
        """The offset of the stored batch with the same producer, epoch, sequences and records."""
        question = _Question(
            partition.number,
            missed.from_offset,
            missed.below_offset,
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.base_sequence,
            wanted.record_count,
            fingerprint,
        )
        if question not in self._answers:
            self._answers[question] = await self._search(question)
            if len(self._answers) > ANSWERS_KEPT_MAX:
                self._answers.popitem(last=False)
        self._answers.move_to_end(question)
        return self._answers[question]

    async def _search(self, question: _Question) -> Offset | None:
        offset = question.below_offset
        size = 0
        for count in range(OLD_RETRY_BATCHES_MAX):
            if count % BATCHES_AT_ONCE == 0:
                await self._batches.pause()
            location = await self._batches.last_begun(question.partition_number, offset - 1)
            if location is None or size > OLD_RETRY_BYTES_MAX:
                return None
            header = await self._batches.header(location)
            if _is_same(header, question):
                stored = memoryview(await self._batches.read(location))
                is_original = record_batch.fingerprint(header, stored) == question.fingerprint
                return Offset(location.base_offset) if is_original else None
            if location.base_offset <= question.from_offset or _is_before(header, question):
                return None
            offset = Offset(location.base_offset)
            size += location.size
        return None


def _is_same(stored: BatchHeader, wanted: _Question) -> bool:
    return (
        stored.producer_id == wanted.producer_id
        and stored.producer_epoch == wanted.producer_epoch
        and stored.base_sequence == wanted.base_sequence
        and stored.record_count == wanted.record_count
        and not stored.is_control
    )


def _is_before(stored: BatchHeader, wanted: _Question) -> bool:
    """Whether the search has come to an older epoch of this producer."""
    return (
        stored.producer_id == wanted.producer_id and stored.producer_epoch < wanted.producer_epoch
    )

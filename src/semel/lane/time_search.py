"""Finding records by their time: the first at or after one, and the youngest of all.

The index knows the youngest record of each batch; the batch that may hold the one that is looked
for is opened, and its records are looked at a few at a time.
"""

import asyncio
from typing import Final, NamedTuple

from semel.errors import CorruptMessage
from semel.journal.index import BatchIndex
from semel.journal.rows import Location
from semel.lane.stored_batches import StoredBatches
from semel.lane.view import PartitionView
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.records.compression import UnpacksTooLarge
from semel.records.records import RecordTimes, unpack
from semel.types import Buffer, Offset

RECORDS_OPENED_MAX: Final = 100_000
"""A batch that claims more is answered with its first offset: real ones are far smaller, and a
few compressed bytes could claim millions."""

UNPACKED_SIZE_MAX: Final = 4 * 2**20
"""Bytes. A batch that unpacks to more is answered so too: nobody is served meanwhile. Clients send
1 MiB at most unless they are told to send more."""

RECORDS_AT_ONCE: Final = 1_000
"""Looked at before a pause."""

BATCHES_OPEN_MAX: Final = 4
"""What they unpack to stays in memory until they are looked through; others wait for them."""


class TimedRecord(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimeSearch:
    """Each raises CorruptJournal, CorruptMessage or OSError if a batch cannot be read."""

    def __init__(self, batches: StoredBatches, index: BatchIndex) -> None:
        self._batches = batches
        self._index = index
        self._opening = asyncio.Semaphore(BATCHES_OPEN_MAX)

    async def first_at_or_after(
        self, partition: PartitionView, timestamp_ms: int, end: Offset
    ) -> TimedRecord | None:
        """The first readable record whose timestamp is not below `timestamp_ms`."""
        first = await self._batches.first_at_or_after(partition.number, timestamp_ms)
        if first is None:
            return None
        start = max(first.base_offset, partition.log_start_offset)
        # Mostly the first batch has it. But its young records may have been deleted, and batches
        # need not stand in the order of their times.
        lot = await self._batches.few(partition.number, start, end)
        while lot:
            for location in lot:
                if (await self._batches.header(location)).max_timestamp_ms >= timestamp_ms:
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
        first = await self._batches.first_at_or_after(partition.number, timestamp_ms)
        if first is None or not partition.log_start_offset <= first.base_offset < end:
            # The youngest is deleted, or not yet to be read.
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
        """None where the batch as a whole has to do. Pauses before."""
        if header.is_log_append_time or header.record_count > RECORDS_OPENED_MAX:
            return None
        await self._batches.pause()
        try:
            return RecordTimes(*unpack(batch, output_size_max=UNPACKED_SIZE_MAX))
        except UnpacksTooLarge:
            return None
        except CorruptMessage:
            return RecordTimes(header._replace(record_count=0), b"")

    async def _few(self, times: RecordTimes) -> list[tuple[int, int]]:
        """Timestamp and offset of the next records; none at the end. Pauses before."""
        await self._batches.pause()
        try:
            return times.few(RECORDS_AT_ONCE)
        except CorruptMessage:
            # Records are not opened when they are produced, so a producer may have sent nonsense.
            # It harms who reads that batch, and must not hide those behind it.
            return []

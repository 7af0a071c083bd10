"""Finding records by their time: the first at or after one, and the youngest of all.

The index knows the youngest record of each batch; the batch that may hold the one that is looked
for is opened.
"""

from typing import Final, NamedTuple

from semel.errors import CorruptMessage
from semel.journal.index import BatchIndex
from semel.journal.rows import Location
from semel.lane.stored_batches import StoredBatches
from semel.lane.view import PartitionView
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.records.compression import UnpacksTooLarge
from semel.records.records import Record, decode_batch
from semel.types import Buffer, Offset

RECORDS_OPENED_MAX: Final = 100_000
"""A batch that claims more is answered with its first offset: real ones are far smaller, and a
few compressed bytes could claim millions."""

UNPACKED_SIZE_MAX: Final = 8 * 2**20
"""Bytes. A batch that unpacks to more is answered so too: nobody is served meanwhile."""


class TimedRecord(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimeSearch:
    """Each raises CorruptJournal, CorruptMessage or OSError if a batch cannot be read."""

    def __init__(self, batches: StoredBatches, index: BatchIndex) -> None:
        self._batches = batches
        self._index = index

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
                    found = _look_into(await self._batches.read(location), timestamp_ms, start)
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
        records = _opened(await self._batches.read(location), header)
        if records is None:
            return header.max_timestamp_ms
        left = (record.timestamp_ms for record in records if record.offset >= start)
        return max(left, default=None)


def _look_into(batch: Buffer, timestamp_ms: int, start: int) -> TimedRecord | None:
    """The first record of the batch at or behind the offset `start` that is young enough."""
    header = record_batch.read(batch)
    records = _opened(batch, header)
    if records is None:
        offset = max(header.base_offset, start)
        return TimedRecord(header.max_timestamp_ms, offset, header.leader_epoch)
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start:
            return TimedRecord(record.timestamp_ms, record.offset, header.leader_epoch)
    return None


def _opened(batch: Buffer, header: BatchHeader) -> list[Record] | None:
    """Its records; None where the batch as a whole has to do."""
    if header.is_log_append_time or header.record_count > RECORDS_OPENED_MAX:
        return None
    try:
        return decode_batch(batch, output_size_max=UNPACKED_SIZE_MAX)
    except UnpacksTooLarge:
        return None
    except CorruptMessage:
        # Records are not opened when they are produced, so a producer may have sent nonsense.
        # It harms who reads that batch, and must not hide those behind it.
        return []

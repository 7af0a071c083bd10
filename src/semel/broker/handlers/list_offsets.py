"""ListOffsets (api key 2), versions 1-7.

v2  read_committed; v4  the client's leader epoch; v6  flexible encoding; v7  timestamp -3

The end of a partition is its durable end; for read_committed, where its first open transaction
begins. A timestamp finds the first record at or after it,
which means opening the one batch that holds it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from semel.broker.answer import Answer, Call, Handled
from semel.broker.turns import BATCHES_AT_ONCE, Turns
from semel.errors import (
    CorruptJournal,
    CorruptMessage,
    RequestError,
    StorageError,
    UnsupportedForMessageFormat,
)
from semel.journal.sealed import Location
from semel.journal.seam import Journal
from semel.log.partition import Partition, check_leader_epoch
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.records.compression import UnpacksTooLarge
from semel.records.records import Record, decode_batch
from semel.types import Buffer, Offset, Position
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
READ_COMMITTED = 1
RECORDS_OPENED_MAX = 100_000
"""A batch that claims more is answered with its first offset: real ones are far smaller, and a
few compressed bytes could claim millions."""

UNPACKED_SIZE_MAX = 8 * 2**20
"""Bytes. A batch that unpacks to more is answered so too: nobody is served meanwhile."""


class Found(NamedTuple):
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


NOTHING = Found()


def list_offsets(broker: "Broker", request: ListOffsetsRequest, call: Call) -> Handled:
    ends_only = all(
        wanted.timestamp in (LATEST, EARLIEST)
        for topic in request.topics
        for wanted in topic.partitions
    )
    searches = _Searches(broker, request)
    return searches.answer_at_once() if ends_only else searches.answer()


class _Searches:
    """What one request asks for; a search by time reads batches and lets others have their turn."""

    def __init__(self, broker: "Broker", request: ListOffsetsRequest) -> None:
        self._broker = broker
        self._request = request
        self._marks = broker.marks()

    def answer_at_once(self) -> Answer:
        return self._answer(
            [
                [self._end(topic.name, wanted) for wanted in topic.partitions]
                for topic in self._request.topics
            ]
        )

    async def answer(self) -> Answer:
        return self._answer(
            [
                [await self._search(topic.name, wanted) for wanted in topic.partitions]
                for topic in self._request.topics
            ]
        )

    def _answer(self, found: list[list[ListOffsetsPartitionResponse]]) -> Answer:
        topics = [
            ListOffsetsTopicResponse(topic.name, partitions)
            for topic, partitions in zip(self._request.topics, found, strict=True)
        ]
        return Answer(ListOffsetsResponse(topics=topics), self._marks)

    def _end(self, topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        try:
            partition, bound = self._partition(topic, wanted)
        except RequestError as error:
            return ListOffsetsPartitionResponse(wanted.partition_index, error.code)
        term = self._broker.lane.state.term
        if wanted.timestamp == LATEST:
            found = Found(-1, bound, term)
        else:
            start = partition.log_start_offset
            found = Found(-1, start, partition.term_at(start, term))
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, *found)

    async def _search(
        self, topic: str, wanted: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        timestamp_ms = wanted.timestamp
        if timestamp_ms in (LATEST, EARLIEST):
            return self._end(topic, wanted)
        try:
            partition, bound = self._partition(topic, wanted)
            if timestamp_ms < 0 and timestamp_ms != MAX_TIMESTAMP:
                raise UnsupportedForMessageFormat(f"timestamp {timestamp_ms} has no meaning")
        except RequestError as error:
            return ListOffsetsPartitionResponse(wanted.partition_index, error.code)
        journal = self._broker.lane.journal
        try:
            if timestamp_ms == MAX_TIMESTAMP:
                found = await _youngest(journal, self._broker.turns, partition, bound)
            else:
                found = await _first_at_or_after(
                    journal, self._broker.turns, partition, timestamp_ms, bound
                )
        except (CorruptJournal, CorruptMessage, OSError) as error:
            # The client's other partitions may be whole: only this one cannot be searched.
            self._broker.found_unreadable(partition.topic_partition, error)
            return ListOffsetsPartitionResponse(wanted.partition_index, StorageError.code)
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, *found)

    def _partition(self, topic: str, wanted: ListOffsetsPartition) -> tuple[Partition, Offset]:
        """The partition, and where it ends for this reader."""
        lane = self._broker.lane
        partition = lane.partition(topic, wanted.partition_index)
        check_leader_epoch(wanted.current_leader_epoch, lane.state.term)
        if self._request.isolation_level == READ_COMMITTED:
            return partition, partition.last_stable_offset
        return partition, partition.high_watermark


async def _youngest(journal: Journal, turns: Turns, partition: Partition, end: Offset) -> Found:
    """The first readable record that has the largest timestamp of all."""
    start = partition.log_start_offset
    timestamp_ms = journal.index.timestamp_max(partition.number)
    if timestamp_ms is None:
        return NOTHING
    place = journal.index.first_at_or_after(partition.number, timestamp_ms)
    if place is None or not start <= place.base_offset < end:
        # The youngest is deleted, or not yet to be read.
        timestamp_ms = await _timestamp_max(journal, turns, partition, end)
    if timestamp_ms is None:
        return NOTHING
    return await _first_at_or_after(journal, turns, partition, timestamp_ms, end)


async def _timestamp_max(
    journal: Journal, turns: Turns, partition: Partition, end: Offset
) -> int | None:
    """Of the readable records, as their batches tell; None if there are none."""
    start = partition.log_start_offset
    largest: int | None = None
    for count, place in enumerate(_places(journal, partition, start, end)):
        if count % BATCHES_AT_ONCE == 0:
            await turns.next()
        header = await _header_at(journal, place)
        timestamp_ms: int | None = header.max_timestamp_ms
        if place.base_offset < start:
            # Its youngest record may be one that is deleted.
            records = _opened(await journal.read(Position(place.position), place.size), header)
            left = (record.timestamp_ms for record in records or () if record.offset >= start)
            timestamp_ms = header.max_timestamp_ms if records is None else max(left, default=None)
        if timestamp_ms is not None and (largest is None or timestamp_ms > largest):
            largest = timestamp_ms
    return largest


async def _first_at_or_after(
    journal: Journal, turns: Turns, partition: Partition, timestamp_ms: int, end: Offset
) -> Found:
    """The first readable record whose timestamp is not below `timestamp_ms`."""
    first = journal.index.first_at_or_after(partition.number, timestamp_ms)
    if first is None:
        return NOTHING
    start = max(first.base_offset, partition.log_start_offset)
    # Mostly the first batch has it. But its young records may have been deleted, and batches
    # need not stand in the order of their times.
    for count, place in enumerate(_places(journal, partition, start, end)):
        if count % BATCHES_AT_ONCE == 0:
            await turns.next()
        if (await _header_at(journal, place)).max_timestamp_ms >= timestamp_ms:
            batch = await journal.read(Position(place.position), place.size)
            found = _look_into(batch, timestamp_ms, start)
            if found is not None:
                return found
    return NOTHING


def _places(journal: Journal, partition: Partition, start: int, end: Offset) -> Iterator[Location]:
    """Of the batches from the one that holds `start`."""
    for span in journal.index.spans(partition.number, start):
        for row in range(span.first, span.stop):
            if span.base_offsets[row] >= end:
                return
            yield Location(span.base_offsets[row], span.positions[row], span.sizes[row])


async def _header_at(journal: Journal, place: Location) -> BatchHeader:
    return record_batch.read_header(
        await journal.read(Position(place.position), record_batch.HEADER_SIZE)
    )


def _look_into(batch: Buffer, timestamp_ms: int, start: int) -> Found | None:
    """The first record of the batch at or behind the offset `start` that is young enough."""
    header = record_batch.read(batch)
    records = _opened(batch, header)
    if records is None:
        offset = max(header.base_offset, start)
        return Found(header.max_timestamp_ms, offset, header.leader_epoch)
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start:
            return Found(record.timestamp_ms, record.offset, header.leader_epoch)
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

"""ListOffsets (api key 2), versions 1-7.

v2  read_committed; v4  the client's leader epoch; v6  flexible encoding; v7  timestamp -3

The end of a partition is its durable end; for read_committed, where its first open transaction
begins. A timestamp finds the first record at or after it,
which means opening the one batch that holds it.
"""

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from semel.broker.answer import Answer, Call, Handled
from semel.errors import CorruptMessage, RequestError, UnsupportedForMessageFormat
from semel.journal.journal import Journal
from semel.lane.changes import partition_of
from semel.log.partition import Partition, check_leader_epoch
from semel.records import batch as record_batch
from semel.records.batch import NO_TIMESTAMP_MS
from semel.records.records import decode_batch
from semel.types import Offset, Position
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
BATCHES_AT_ONCE = 16
"""Batches that are looked at before others get their turn."""

RECORDS_OPENED_MAX = 100_000
"""A batch that claims more is answered with its first offset: real ones are far smaller, and a
few compressed bytes could claim millions."""


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
        self._position = broker.lane.journal.end

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
        return Answer(ListOffsetsResponse(topics=topics), self._position)

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
            if timestamp_ms == MAX_TIMESTAMP:
                largest = self._broker.lane.journal.index.timestamp_max(partition.number)
                timestamp_ms = NO_TIMESTAMP_MS if largest is None else largest
            elif timestamp_ms < 0:
                raise UnsupportedForMessageFormat(f"timestamp {timestamp_ms} has no meaning")
        except RequestError as error:
            return ListOffsetsPartitionResponse(wanted.partition_index, error.code)
        journal = self._broker.lane.journal
        found = await _first_at_or_after(journal, partition, timestamp_ms, bound)
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, *found)

    def _partition(self, topic: str, wanted: ListOffsetsPartition) -> tuple[Partition, Offset]:
        """The partition, and where it ends for this reader."""
        lane = self._broker.lane
        partition = partition_of(lane, topic, wanted.partition_index)
        check_leader_epoch(wanted.current_leader_epoch, lane.state.term)
        if self._request.isolation_level == READ_COMMITTED:
            return partition, partition.last_stable_offset
        return partition, partition.high_watermark


async def _first_at_or_after(
    journal: Journal, partition: Partition, timestamp_ms: int, end: Offset
) -> Found:
    """The first readable record whose timestamp is not below `timestamp_ms`."""
    place = journal.index.first_at_or_after(partition.number, timestamp_ms)
    if place is None:
        return NOTHING
    start = max(place.base_offset, partition.log_start_offset)
    # Mostly the first batch has it. But its young records may have been deleted, and batches
    # need not stand in the order of their times.
    for span in journal.index.spans(partition.number, start):
        for row in range(span.first, span.stop):
            if span.base_offsets[row] >= end:
                return NOTHING
            position = Position(span.positions[row])
            header = record_batch.read_header(journal.read(position, record_batch.HEADER_SIZE))
            if header.max_timestamp_ms >= timestamp_ms:
                found = _look_into(journal.read(position, span.sizes[row]), timestamp_ms, start)
                if found is not None:
                    return found
            if row % BATCHES_AT_ONCE == 0:
                await asyncio.sleep(0)
    return NOTHING


def _look_into(batch: bytes, timestamp_ms: int, start: int) -> Found | None:
    """The first record of the batch at or behind the offset `start` that is young enough."""
    header = record_batch.read(batch)
    if header.is_log_append_time or header.record_count > RECORDS_OPENED_MAX:
        offset = max(header.base_offset, start)
        return Found(header.max_timestamp_ms, offset, header.leader_epoch)
    try:
        records = decode_batch(batch)
    except CorruptMessage:
        # Records are not opened when they are produced, so a producer may have sent nonsense.
        # It harms who reads that batch, and must not hide those behind it.
        return None
    for record in records:
        if record.timestamp_ms >= timestamp_ms and record.offset >= start:
            return Found(record.timestamp_ms, record.offset, header.leader_epoch)
    return None

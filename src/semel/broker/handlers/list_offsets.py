"""ListOffsets (api key 2), versions 1-7.

v2  read_committed; v4  the client's leader epoch; v6  flexible encoding; v7  timestamp -3

The end of a partition is its durable end; for read_committed, where its first open transaction
begins. A timestamp finds the first record at or after it,
which means opening the one batch that holds it.
"""

from typing import TYPE_CHECKING, NamedTuple

from semel.broker.answer import Answer, Call
from semel.errors import CorruptMessage, RequestError, UnsupportedForMessageFormat
from semel.lane.changes import partition_of
from semel.log.partition import Partition, check_leader_epoch
from semel.records import batch as record_batch
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

RECORDS_OPENED_MAX = 100_000
"""A batch that claims more is answered with its first offset: real ones are far smaller, and a
few compressed bytes could claim millions."""


class Found(NamedTuple):
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


NOTHING = Found()


def list_offsets(broker: "Broker", request: ListOffsetsRequest, call: Call) -> Answer:
    return Answer(
        ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    topic.name,
                    [
                        _look_up(broker, topic.name, wanted, request.isolation_level)
                        for wanted in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        ),
        broker.lane.journal.end,
    )


def _look_up(
    broker: "Broker", topic: str, wanted: ListOffsetsPartition, isolation_level: int
) -> ListOffsetsPartitionResponse:
    try:
        partition = partition_of(broker.lane, topic, wanted.partition_index)
        check_leader_epoch(wanted.current_leader_epoch, broker.lane.state.term)
        is_committed = isolation_level == READ_COMMITTED
        end = partition.last_stable_offset if is_committed else partition.high_watermark
        found = _find(broker, partition, wanted.timestamp, end)
    except RequestError as error:
        return ListOffsetsPartitionResponse(wanted.partition_index, error.code)
    return ListOffsetsPartitionResponse(wanted.partition_index, 0, *found)


def _find(broker: "Broker", partition: Partition, timestamp_ms: int, end: Offset) -> Found:
    if timestamp_ms == LATEST:
        return Found(-1, end, broker.lane.state.term)
    if timestamp_ms == EARLIEST:
        start = partition.log_start_offset
        return Found(-1, start, partition.term_at(start, broker.lane.state.term))
    if timestamp_ms == MAX_TIMESTAMP:
        largest = broker.lane.journal.index.timestamp_max(partition.number)
        return NOTHING if largest is None else _first_at_or_after(broker, partition, largest, end)
    if timestamp_ms < 0:
        raise UnsupportedForMessageFormat(f"timestamp {timestamp_ms} has no meaning")
    return _first_at_or_after(broker, partition, timestamp_ms, end)


def _first_at_or_after(
    broker: "Broker", partition: Partition, timestamp_ms: int, end: Offset
) -> Found:
    """The first readable record whose timestamp is not below `timestamp_ms`."""
    journal = broker.lane.journal
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
            batch = journal.read(Position(span.positions[row]), span.sizes[row])
            found = _look_into(batch, timestamp_ms, start)
            if found is not None:
                return found
    return NOTHING


def _look_into(batch: bytes, timestamp_ms: int, start: int) -> Found | None:
    """The first record of the batch at or behind the offset `start` that is young enough."""
    header = record_batch.read(batch)
    if header.max_timestamp_ms < timestamp_ms:
        return None
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

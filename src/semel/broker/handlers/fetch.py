"""Fetch (api key 1), versions 4-12.

v4   read_committed; v5  log start offset; v7  sessions; v9  the client's leader epoch
v12  flexible encoding

Answered from the durable state alone, so it waits for no sync: the high watermark is the durable
end. If there is less than the client wants, the answer waits until a partition has grown or the
client's patience is over. Every fetch is a full one: session 0 is what a broker answers that
keeps no sessions, and clients go on with full fetches.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from semel.broker.answer import Answer, Call
from semel.errors import FetchSessionIdNotFound, OffsetOutOfRange, RequestError
from semel.lane.changes import partition_of
from semel.log.partition import Partition, check_leader_epoch
from semel.types import Buffer
from semel.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

READ_COMMITTED = 1


def fetch(
    broker: "Broker", request: FetchRequest, call: Call
) -> Answer | Coroutine[Any, Any, Answer]:
    if request.session_id != 0:
        return Answer(FetchResponse(error_code=FetchSessionIdNotFound.code))
    reading = _Reading(broker, request)
    if reading.is_enough or request.max_wait_ms <= 0:
        return Answer(reading.response)
    return _wait(broker, request)


async def _wait(broker: "Broker", request: FetchRequest) -> Answer:
    loop = asyncio.get_running_loop()
    wait_ms = min(request.max_wait_ms, broker.config.fetch_max_wait_ms)
    deadline = loop.time() + wait_ms / 1000
    grown = asyncio.Event()
    watched = _partitions(broker, request)
    for partition in watched:
        partition.watchers[grown.set] = None
    try:
        async with asyncio.timeout_at(deadline):
            while True:
                # Read again before waiting: a partition may have grown since the first look.
                grown.clear()
                reading = _Reading(broker, request)
                if reading.is_enough:
                    return Answer(reading.response)
                await grown.wait()
    except TimeoutError:
        return Answer(_Reading(broker, request).response)
    finally:
        for partition in watched:
            partition.watchers.pop(grown.set, None)


def _partitions(broker: "Broker", request: FetchRequest) -> list[Partition]:
    found = []
    for topic_request in request.topics:
        topic = broker.lane.state.topics.get(topic_request.topic)
        for wanted in topic_request.partitions:
            partition = topic and topic.partition(wanted.partition)
            if partition:
                found.append(partition)
    return found


class _Reading:
    """What there is to answer now, and whether it is enough to answer at once."""

    def __init__(self, broker: "Broker", request: FetchRequest) -> None:
        self._broker = broker
        self._isolation_level = request.isolation_level
        self._room = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._size = 0
        self._is_refused = False
        self.response = FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic.topic,
                    [self._read(topic.topic, wanted) for wanted in topic.partitions],
                )
                for topic in request.topics
            ]
        )
        self.is_enough = self._is_refused or self._size >= request.min_bytes
        broker.metrics.bytes_out += self._size if self.is_enough else 0

    def _read(self, topic: str, wanted: FetchPartition) -> PartitionData:
        try:
            partition = partition_of(self._broker.lane, topic, wanted.partition)
            check_leader_epoch(wanted.current_leader_epoch, self._broker.lane.state.term)
            if not partition.log_start_offset <= wanted.fetch_offset <= partition.log_end_offset:
                raise OffsetOutOfRange
        except RequestError as error:
            self._is_refused = True
            return PartitionData(wanted.partition, error.code, -1, records=b"")
        return PartitionData(
            wanted.partition,
            0,
            partition.high_watermark,
            partition.high_watermark,
            partition.log_start_offset,
            aborted_transactions=[] if self._isolation_level == READ_COMMITTED else None,
            records=self._records(partition, wanted),
        )

    def _records(self, partition: Partition, wanted: FetchPartition) -> Buffer | list[Buffer]:
        if wanted.fetch_offset >= partition.high_watermark:
            return b""
        size_max = min(self._room - self._size, wanted.partition_max_bytes)
        if size_max <= 0 and self._size > 0:
            return b""
        batches = self._broker.lane.journal.batches(
            partition.number, wanted.fetch_offset, partition.high_watermark, size_max
        )
        size = sum(map(len, batches))
        # The first batch of an answer is given whole whatever its size, or its reader would
        # never get past it; the others have to fit.
        if size > size_max and self._size > 0:
            return b""
        self._size += size
        return list(batches)

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
from typing import TYPE_CHECKING, Any, Final

from semel.broker.answer import Answer, Call
from semel.errors import (
    CorruptJournal,
    FetchSessionIdNotFound,
    OffsetOutOfRange,
    RequestError,
    StorageError,
)
from semel.lane.changes import partition_of
from semel.log.partition import Partition, check_leader_epoch
from semel.records import batch as record_batch
from semel.types import Buffer, Offset, Position, TopicPartition
from semel.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from semel.broker.broker import Broker

READ_COMMITTED: Final = 1


def fetch(
    broker: "Broker", request: FetchRequest, call: Call
) -> Answer | Coroutine[Any, Any, Answer]:
    if request.session_id != 0:
        return Answer(FetchResponse(error_code=FetchSessionIdNotFound.code))
    may_wait = request.max_wait_ms > 0
    if may_wait and request.min_bytes > 1 and not _Look(broker, request).is_enough:
        return _wait(broker, request)
    reading = _Reading(broker, request)
    return reading.answer() if reading.is_enough or not may_wait else _wait(broker, request)


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
            # Look again before waiting: a partition may have grown since the first look.
            while not _Look(broker, request).is_enough:
                grown.clear()
                await grown.wait()
    except TimeoutError:
        pass
    finally:
        for partition in watched:
            partition.watchers.pop(grown.set, None)
    return _Reading(broker, request).answer()


def _partitions(broker: "Broker", request: FetchRequest) -> list[Partition]:
    found = []
    for topic_request in request.topics:
        topic = broker.lane.state.topics.get(topic_request.topic)
        for wanted in topic_request.partitions:
            partition = topic and topic.partition(wanted.partition)
            if partition:
                found.append(partition)
    return found


class _Look:
    """How much there is to answer, by the index alone, and whether it is enough to answer now."""

    def __init__(self, broker: "Broker", request: FetchRequest) -> None:
        self._broker = broker
        self._isolation_level = request.isolation_level
        size_max = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._room = min(size_max, broker.reply_room_bytes)
        self._size = 0
        self._is_refused = False
        self.responses = [
            FetchableTopicResponse(
                topic.topic,
                [self._partition(topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
        self.is_enough = self._is_refused or self._size >= min(request.min_bytes, size_max)

    def _partition(self, topic: str, wanted: FetchPartition) -> PartitionData:
        key = TopicPartition(topic, wanted.partition)
        try:
            partition = partition_of(self._broker.lane, topic, wanted.partition)
            check_leader_epoch(wanted.current_leader_epoch, self._broker.lane.state.term)
            if not partition.log_start_offset <= wanted.fetch_offset <= partition.log_end_offset:
                raise OffsetOutOfRange
        except RequestError as error:
            self._is_refused = True
            return PartitionData(wanted.partition, error.code, -1, records=b"")
        is_committed = self._isolation_level == READ_COMMITTED
        bound = partition.last_stable_offset if is_committed else partition.high_watermark
        try:
            records = self._records(partition, wanted, bound)
        except (CorruptJournal, OSError) as error:
            # The reader's other partitions may be whole: only this one is refused.
            self._broker.found_unreadable(key, error)
            self._is_refused = True
            return PartitionData(wanted.partition, StorageError.code, -1, records=b"")
        return PartitionData(
            wanted.partition,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            aborted_transactions=_aborted(partition, wanted, records) if is_committed else None,
            records=records,
        )

    def _records(
        self, partition: Partition, wanted: FetchPartition, bound: Offset
    ) -> Buffer | list[Buffer]:
        if wanted.fetch_offset >= bound:
            return b""
        size_max = min(self._room - self._size, wanted.partition_max_bytes)
        if size_max <= 0 and self._size > 0:
            return b""
        size, batches = self._take(partition, wanted.fetch_offset, bound, size_max)
        # The first batch of an answer is given whole whatever its size, or its reader would
        # never get past it; the others have to fit.
        if size > size_max and self._size > 0:
            return b""
        self._size += size
        return batches

    def _take(
        self, partition: Partition, offset: int, bound: Offset, size_max: int
    ) -> tuple[int, Buffer | list[Buffer]]:
        places = self._broker.lane.journal.index.locations(
            partition.number, offset, bound, size_max
        )
        return sum(size for _, size in places), b""


class _Reading(_Look):
    """What there is to answer now."""

    def answer(self) -> Answer:
        self._broker.metrics.bytes_out += self._size
        # Records come from the durable state. A refusal may come from what is not yet durable,
        # such as the deletion of a topic, and then waits for that.
        position = self._broker.lane.journal.end if self._is_refused else Position(0)
        return Answer(FetchResponse(responses=self.responses), position)

    def _take(
        self, partition: Partition, offset: int, bound: Offset, size_max: int
    ) -> tuple[int, Buffer | list[Buffer]]:
        batches = self._broker.lane.journal.batches(partition.number, offset, bound, size_max)
        return sum(map(len, batches)), list(batches)


def _aborted(
    partition: Partition, wanted: FetchPartition, records: Buffer | list[Buffer]
) -> list[AbortedTransaction]:
    """Aborted transactions that overlap these records, also those begun before them.

    Not those behind them: in a log with many aborts, each fetch would carry all that are to come.
    """
    if not isinstance(records, list) or not records:
        return []
    end = Offset(record_batch.read(records[-1]).last_offset + 1)
    return [
        AbortedTransaction(aborted.producer_id, aborted.first_offset)
        for aborted in partition.transactions.aborted.overlapping(Offset(wanted.fetch_offset), end)
    ]

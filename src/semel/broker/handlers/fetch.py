"""Fetch (api key 1), versions 4-12.

v4   read_committed; v5  log start offset; v7  sessions; v9  the client's leader epoch
v12  flexible encoding

Answered from the durable state alone, so it waits for no sync: the high watermark is the durable
end. If there is less than the client wants, the answer waits until a partition has grown or the
client's patience is over. Every fetch is a full one: session 0 is what a broker answers that
keeps no sessions, and clients go on with full fetches.
"""

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.broker.answer import NOTHING, Answer, Call, Handled
from semel.errors import (
    NONE,
    CorruptJournal,
    FetchSessionIdNotFound,
    OffsetOutOfRange,
    RequestError,
    StorageError,
)
from semel.log.partition import Partition, check_leader_epoch
from semel.records import batch as record_batch
from semel.types import Buffer, Offset
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


def fetch(broker: "Broker", request: FetchRequest, call: Call) -> Handled:
    if request.session_id != 0:
        return Answer(FetchResponse(error_code=FetchSessionIdNotFound.code))
    look = _Look(broker, request)
    if look.is_enough or request.max_wait_ms <= 0:
        return look.answer()
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
            # Look again before waiting: a partition may have grown since the first look.
            while not (look := _Look(broker, request)).is_enough:
                grown.clear()
                await grown.wait()
    except TimeoutError:
        look = _Look(broker, request)
    finally:
        for partition in watched:
            partition.watchers.pop(grown.set, None)
    answer = look.answer()
    return answer if isinstance(answer, Answer) else await answer


def _partitions(broker: "Broker", request: FetchRequest) -> list[Partition]:
    found = []
    for topic_request in request.topics:
        for wanted in topic_request.partitions:
            partition = broker.lane.state.partition(topic_request.topic, wanted.partition)
            if partition:
                found.append(partition)
    return found


class _Found(NamedTuple):
    data: PartitionData
    """Without records yet."""
    partition: Partition
    from_offset: Offset
    places: list[tuple[int, int]]
    """Where its batches lie in the journal."""


class _Look:
    """What there is to answer, by the index alone, and whether it is enough to answer now."""

    def __init__(self, broker: "Broker", request: FetchRequest) -> None:
        self._broker = broker
        self._is_committed = request.isolation_level == READ_COMMITTED
        size_max = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._room = min(size_max, broker.reply_room_bytes)
        self._size = 0
        self._is_refused = False
        self._found: list[_Found] = []
        self._responses = [
            FetchableTopicResponse(
                topic.topic,
                [self._partition(topic.topic, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
        self.is_enough = self._is_refused or self._size >= min(request.min_bytes, size_max)

    def _partition(self, topic: str, wanted: FetchPartition) -> PartitionData:
        try:
            partition = self._broker.lane.partition(topic, wanted.partition)
            check_leader_epoch(wanted.current_leader_epoch, self._broker.lane.state.term)
            if not partition.log_start_offset <= wanted.fetch_offset <= partition.log_end_offset:
                raise OffsetOutOfRange
        except RequestError as error:
            self._is_refused = True
            return PartitionData(wanted.partition, error.code, -1, records=b"")
        data = PartitionData(
            wanted.partition,
            NONE,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            aborted_transactions=[] if self._is_committed else None,
            records=b"",
        )
        bound = partition.last_stable_offset if self._is_committed else partition.high_watermark
        if wanted.fetch_offset < bound:
            try:
                places = self._places(partition, wanted, bound)
            except (CorruptJournal, OSError) as error:
                self._refuse(data, partition, error)
            else:
                if places:
                    self._found.append(_Found(data, partition, Offset(wanted.fetch_offset), places))
        return data

    def _places(
        self, partition: Partition, wanted: FetchPartition, bound: Offset
    ) -> list[tuple[int, int]]:
        size_max = min(self._room - self._size, wanted.partition_max_bytes)
        if size_max <= 0 and self._size > 0:
            return []
        places = self._broker.lane.journal.index.locations(
            partition.number, wanted.fetch_offset, bound, size_max
        )
        size = 0
        for _, batch_size in places:
            size += batch_size
        # The first batch of an answer is given whole whatever its size, or its reader would
        # never get past it; the others have to fit.
        if size > size_max and self._size > 0:
            return []
        self._size += size
        return places

    def _refuse(self, data: PartitionData, partition: Partition, error: Exception) -> None:
        """The reader's other partitions may be whole: only this one cannot be read."""
        self._broker.found_unreadable(partition.topic_partition, error)
        self._is_refused = True
        data.error_code = StorageError.code
        data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
        data.aborted_transactions = None

    def answer(self) -> Handled:
        """At once if what was found is in memory, and when the disk has brought it otherwise."""
        places = sorted(place for found in self._found for place in found.places)
        try:
            batches = self._broker.lane.journal.read_now(places)
        except OSError:
            batches = None
        if batches is None:
            return self._answer_when_read(places)
        self._give_all(dict(zip(places, batches, strict=True)))
        return self._answer()

    async def _answer_when_read(self, places: list[tuple[int, int]]) -> Answer:
        """Together: batches that were written at one time lie side by side, whosever they are."""
        journal = self._broker.lane.journal
        try:
            self._give_all(dict(zip(places, await journal.read_all(places), strict=True)))
        except (CorruptJournal, OSError):
            for found in self._found:
                try:
                    self._give(found, [*await journal.read_all(found.places)])
                except (CorruptJournal, OSError) as error:
                    self._refuse(found.data, found.partition, error)
        return self._answer()

    def _answer(self) -> Answer:
        self._broker.metrics.bytes_out += self._size
        # Records come from the durable state. A refusal may come from what is not yet durable,
        # such as the deletion of a topic, and then waits for that.
        marks = None if self._is_refused else NOTHING
        return Answer(FetchResponse(responses=self._responses), marks)

    def _give_all(self, batches: dict[tuple[int, int], memoryview]) -> None:
        for found in self._found:
            self._give(found, [batches[place] for place in found.places])

    def _give(self, found: _Found, batches: list[Buffer]) -> None:
        found.data.records = batches
        if self._is_committed:
            # Those that overlap these records, also if begun before them. Not those behind them:
            # in a log with many aborts, each fetch would carry all that are to come.
            end = Offset(record_batch.read(batches[-1]).last_offset + 1)
            aborted = found.partition.transactions.aborted
            found.data.aborted_transactions = [
                AbortedTransaction(each.producer_id, each.first_offset)
                for each in aborted.overlapping(found.from_offset, end)
            ]

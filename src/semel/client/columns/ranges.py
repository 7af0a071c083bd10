"""A range of a partition as Arrow: fetched ahead, filtered, and read up to a position.

Markers and aborted records take offsets too, and a compacted log has gaps, so a range ends when its
position is reached and not when so many records have been seen.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import NamedTuple

import pyarrow as pa

from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, beginnings_of, ends_of
from semel.client.columns.decode import decode
from semel.client.columns.schema import COLUMNS
from semel.client.connecting.link import Pending
from semel.client.connecting.topic_ids import NO_ID
from semel.client.consuming.committed import next_offset
from semel.errors import NetworkException, OffsetOutOfRange, RequestError, RequestTimedOut
from semel.records.batch import split
from semel.types import Buffer, TopicPartition
from semel.wire.messages import fetch

FETCH_SIZE_MAX = 8 * 1024 * 1024
_CONSUMER = -1
_WAIT_MS_MAX = 500


class RecordsLost(OffsetOutOfRange):
    """Records that were asked for are not in the partition any more, or not yet."""

    def __init__(self, partition: TopicPartition, offset: int, beginning: int, end: int) -> None:
        super().__init__(
            f"offset {offset} is not in {partition}, which has {beginning} to {end}: "
            + ("retention has removed it" if offset < beginning else "the topic was cut or remade")
        )
        self.partition = partition
        self.offset = offset
        self.beginning = beginning
        self.end = end

    def __reduce__(self) -> tuple[type["RecordsLost"], tuple[TopicPartition, int, int, int]]:
        return RecordsLost, (self.partition, self.offset, self.beginning, self.end)


class Region(NamedTuple):
    """What one fetch gave of a range, still as the log has it."""

    partition: TopicPartition
    batches: Buffer
    aborted: Sequence[fetch.AbortedTransaction]
    start_offset: int
    end_offset: int
    """The end of the range, not of the batches."""
    next_offset: int
    """Where the range goes on."""

    def decode(self, columns: Collection[str] = COLUMNS) -> pa.RecordBatch:
        return decode(
            self.batches,
            self.partition,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            aborted=self.aborted,
            columns=columns,
        )


async def fetch_regions(
    cluster: Cluster,
    partition: TopicPartition,
    start_offset: int,
    end_offset: int,
    *,
    isolation: Isolation = Isolation.READ_COMMITTED,
    fetch_size_max: int = FETCH_SIZE_MAX,
    accepts_loss: bool = False,
    begins_with_log: bool = False,
) -> AsyncIterator[Region]:
    """The records of `start_offset..end_offset`, the end not included.

    They are not decoded, so that the next fetch is under way while a region is in use. With
    `accepts_loss` a range whose beginning is gone is read from what is left of it. One that
    `begins_with_log` was to be read from the first record there is, which may be a later one by
    the time of the first fetch; what is gone after that is lost.
    """
    fetching = _Fetching(cluster, partition, isolation, fetch_size_max)
    loop = asyncio.get_running_loop()
    position = start_offset
    has_begun = False
    progress_s = loop.time()
    while position < end_offset:
        try:
            answer = await fetching.answer_at(position)
        except RecordsLost as lost:
            if not accepts_loss and (has_begun or not begins_with_log):
                raise
            if position >= lost.beginning:
                return
            position = lost.beginning
            continue
        batches = answer.records
        assert not isinstance(batches, list)
        reached = position if batches is None else next_offset(batches, position)
        if batches is None or reached == position:
            if await fetching.is_bare(position, end_offset):
                return
            if loop.time() - progress_s > cluster.timeout_ms / 1000:
                raise RequestTimedOut(
                    f"{partition}: nothing is to be read at offset {position}, "
                    f"though it should go on to {end_offset}"
                )
            continue
        has_begun = True
        if reached < end_offset:
            await fetching.ask_ahead(reached)
        yield Region(
            partition, batches, answer.aborted_transactions or (), position, end_offset, reached
        )
        position = reached
        progress_s = loop.time()


class _Fetching:
    """The fetches of one partition, of which one may be under way before it is needed."""

    def __init__(
        self, cluster: Cluster, partition: TopicPartition, isolation: Isolation, size_max: int
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._isolation = isolation
        self._size_max = size_max
        self._leader_id: int | None = None
        self._topic_id = NO_ID
        """Of the topic that is read: another of its name has other records."""
        self._ahead: Pending[fetch.FetchResponse] | None = None

    async def ask_ahead(self, offset: int) -> None:
        try:
            self._ahead = await self._ask(offset)
        except RequestError:
            # Asked again, and with patience, once its answer is needed.
            self._leader_id = None

    async def is_bare(self, offset: int, end_offset: int) -> bool:
        """Whether no batch lies from the offset up to the end, for who may read all there is.

        Compaction may have left a gap before the first open transaction, which ends the range. An
        empty answer alone is no proof of that: a broker may give one that is still looking.
        """
        if self._isolation is Isolation.READ_UNCOMMITTED:
            return False
        answer = await self.answer_at(offset, Isolation.READ_UNCOMMITTED)
        assert not isinstance(answer.records, list)
        for header, _ in split(answer.records or b""):
            return header.base_offset >= end_offset
        return False

    async def answer_at(
        self, offset: int, isolation: Isolation | None = None
    ) -> fetch.PartitionData:
        async def attempt() -> fetch.PartitionData:
            pending, self._ahead = self._ahead, None
            try:
                if pending is None:
                    pending = await self._ask(offset, isolation)
                return self._answer(await pending.reply(self._cluster.request_timeout_ms))
            except RequestError:
                self._leader_id = None
                raise

        try:
            return await self._cluster.retry(attempt)
        except OffsetOutOfRange:
            read = [self._partition]
            beginnings = await beginnings_of(self._cluster, read)
            ends = await ends_of(self._cluster, read)
            raise RecordsLost(
                self._partition, offset, beginnings[self._partition], ends[self._partition]
            ) from None

    async def _ask(
        self, offset: int, isolation: Isolation | None = None
    ) -> Pending[fetch.FetchResponse]:
        if self._leader_id is None:
            described = await self._cluster.leaders_and_topic_ids([self._partition])
            leader_id, topic_id = described[self._partition]
            if NO_ID not in (topic_id, self._topic_id) and topic_id != self._topic_id:
                raise OffsetOutOfRange(f"the topic of {self._partition} was made anew")
            self._leader_id, self._topic_id = leader_id, topic_id
        partition = fetch.FetchPartition(
            partition=self._partition.partition,
            fetch_offset=offset,
            partition_max_bytes=self._size_max,
        )
        request = fetch.FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=_WAIT_MS_MAX,
            min_bytes=1,
            max_bytes=self._size_max,
            isolation_level=self._isolation if isolation is None else isolation,
            topics=[fetch.FetchTopic(self._partition.topic, [partition], self._topic_id)],
            forgotten_topics_data=[],
        )
        return await self._cluster.ask(self._leader_id, fetch, request)

    def _answer(self, reply: fetch.FetchResponse) -> fetch.PartitionData:
        raise_for(reply.error_code, "fetch")
        for topic in reply.responses:
            for answer in topic.partitions:
                raise_for(answer.error_code, f"{self._partition}")
                return answer
        raise NetworkException(f"the reply to Fetch says nothing of {self._partition}")

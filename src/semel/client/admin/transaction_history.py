"""What logs still hold of past transactions: their values, their data and their markers.

The values of a transactional id are in the log of its coordinator; data and markers in the
partitions that were written to. Either is read as it is stored, aborted records included.
"""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from semel.client.cluster.calls import raise_for
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.offsets import Isolation, beginnings_of, ends_of
from semel.errors import OffsetOutOfRange, RecordListTooLarge, TransactionalIdNotFound
from semel.records.batch import BatchHeader, split
from semel.records.control import Marker, decode_marker
from semel.records.partitioning import partition_for
from semel.records.records import decode_batch
from semel.transactions import records
from semel.transactions.transaction import Status, Transaction
from semel.types import TRANSACTIONS_TOPIC, Buffer, TopicPartition
from semel.wire.messages import fetch

_CONSUMER = -1
_WAIT_MS_MAX = 500
_FETCH_SIZE_MAX = 4 * 1024 * 1024

_WINDOW_FIRST = 1000
_WINDOW_GROWTH = 4
_COMPLETED = frozenset({Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT})

SIZE_MAX = 64 * 1024 * 1024
"""Bytes that are read of one partition in search of traces."""


class StoredBatch(NamedTuple):
    header: BatchHeader
    content: memoryview


async def stored_batches(
    cluster: Cluster,
    partition: TopicPartition,
    start: int,
    stop: int,
    fetch_size_max: int = _FETCH_SIZE_MAX,
) -> AsyncIterator[StoredBatch]:
    """The batches with an offset in [start, stop), or up to the end if that comes before.

    Where the log has come to begin later, those from there on. A fetch brings a whole batch,
    however little is asked for.
    """
    offset = start
    while offset < stop:
        try:
            fetched = await _fetch(cluster, partition, offset, fetch_size_max)
        except OffsetOutOfRange:
            beginning = (await beginnings_of(cluster, [partition]))[partition]
            if beginning <= offset:
                raise
            offset = beginning
            continue
        if not len(fetched):
            return
        before = offset
        for header, content in split(fetched):
            if header.base_offset >= stop:
                return
            offset = header.last_offset + 1
            yield StoredBatch(header, content)
        if offset == before:
            raise RecordListTooLarge(
                f"a batch of {partition} does not fit into the {fetch_size_max} bytes asked for"
            )


async def _fetch(cluster: Cluster, partition: TopicPartition, offset: int, size_max: int) -> Buffer:
    request = fetch.FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=_WAIT_MS_MAX,
        min_bytes=1,
        max_bytes=size_max,
        isolation_level=Isolation.READ_UNCOMMITTED,
        topics=[
            fetch.FetchTopic(
                partition.topic,
                [
                    fetch.FetchPartition(
                        partition=partition.partition,
                        fetch_offset=offset,
                        partition_max_bytes=size_max,
                    )
                ],
            )
        ],
        forgotten_topics_data=[],
    )

    async def attempt() -> Buffer:
        leader_id = (await cluster.leaders_of([partition]))[partition]
        reply = await cluster.call(leader_id, fetch, request)
        raise_for(reply.error_code, f"fetch of {partition}")
        ((answer,),) = (topic.partitions for topic in reply.responses)
        if answer.error_code == OffsetOutOfRange.code:
            raise OffsetOutOfRange(f"offset {offset} is not in partition {partition}")
        raise_for(answer.error_code, f"{partition}")
        batches = answer.records
        # Read from the wire, records are one piece.
        assert not isinstance(batches, list)
        return batches or b""

    return await cluster.retry(attempt)


class StoredValue(NamedTuple):
    offset: int
    written_at_ms: int
    value: Transaction


async def last_values(
    cluster: Cluster, transactional_id: str, transaction_count: int
) -> list[StoredValue]:
    """Its values in the order of the log, back to before its last so many transactions.

    The log is shared with other ids and may be long, so it is read backwards in growing steps.
    """
    partition = await _partition_of(cluster, transactional_id)
    start = (await beginnings_of(cluster, [partition]))[partition]
    stop = (await ends_of(cluster, [partition]))[partition]
    window = _WINDOW_FIRST
    values: list[StoredValue] = []
    while start < stop and not _reaches_back(values, transaction_count):
        begin = max(start, stop - window)
        values = await _values(cluster, partition, transactional_id, begin, stop) + values
        stop, window = begin, window * _WINDOW_GROWTH
    if not values:
        raise TransactionalIdNotFound(f"transactional id {transactional_id} is not known")
    return values


async def _partition_of(cluster: Cluster, transactional_id: str) -> TopicPartition:
    topics = (await cluster.describe([TRANSACTIONS_TOPIC])).topics
    if TRANSACTIONS_TOPIC not in topics:
        raise TransactionalIdNotFound(
            f"transactional id {transactional_id} is not known: there was no transaction yet"
        )
    count = len(topics[TRANSACTIONS_TOPIC].partitions)
    return TopicPartition(TRANSACTIONS_TOPIC, partition_for(transactional_id, count))


def _reaches_back(values: Sequence[StoredValue], transaction_count: int) -> bool:
    # One more than wanted, since the first of them may be there only in part.
    completed = sum(stored.value.status in _COMPLETED for stored in values)
    return completed > transaction_count


async def _values(
    cluster: Cluster, partition: TopicPartition, transactional_id: str, start: int, stop: int
) -> list[StoredValue]:
    values = []
    async for batch in stored_batches(cluster, partition, start, stop):
        if batch.header.is_control:
            continue
        for record in decode_batch(batch.content):
            # The first batch may begin before the window: those records belong to the next one.
            if not start <= record.offset < stop or record.key is None:
                continue
            value = records.decode(record.key, record.value)
            if value is not None and value.transactional_id == transactional_id:
                values.append(StoredValue(record.offset, record.timestamp_ms, value))
    return values


class WrittenRecords(NamedTuple):
    """The records of one transaction in one partition."""

    first_offset: int
    last_offset: int
    record_count: int
    first_timestamp_ms: int
    """As the producer says, unless the topic stamps records itself."""
    producer_epoch: int


class TransactionTrace(NamedTuple):
    """One transaction in one partition; without a marker, it is open there."""

    producer_id: int
    written: WrittenRecords | None
    marker: Marker | None


class TransactionTracing:
    """Takes the batches of a partition in their order, and tells the transactions from them."""

    def __init__(self, producer_ids: frozenset[int]) -> None:
        self._producer_ids = producer_ids
        self._ended: list[TransactionTrace] = []
        self._open: dict[int, WrittenRecords] = {}

    def meet(self, header: BatchHeader, content: memoryview) -> None:
        producer_id = header.producer_id
        if not header.is_transactional or producer_id not in self._producer_ids:
            return
        if header.is_control:
            written = self._open.pop(producer_id, None)
            # One that compaction has emptied does not say how its transaction ended.
            if (marker := decode_marker(content)) is not None:
                self._ended.append(TransactionTrace(producer_id, written, marker))
        elif header.record_count:
            self._open[producer_id] = _longer(self._open.get(producer_id), header)

    def traces(self) -> list[TransactionTrace]:
        """Those that have ended, in the order of their ends, and behind them the open ones."""
        still_open = (TransactionTrace(each, written, None) for each, written in self._open.items())
        return [*self._ended, *still_open]


async def traces_in(
    cluster: Cluster, partition: TopicPartition, producer_ids: frozenset[int], start: int, stop: int
) -> list[TransactionTrace]:
    """The transactions of these producers in [start, stop), in the order of their ends."""
    tracing = TransactionTracing(producer_ids)
    size = 0
    async for header, content in stored_batches(cluster, partition, start, stop):
        size += len(content)
        if size > SIZE_MAX:
            break
        tracing.meet(header, content)
    return tracing.traces()


def _longer(written: WrittenRecords | None, header: BatchHeader) -> WrittenRecords:
    if written is None:
        # Where a delete horizon stands in the place of the first time, the last one has to do.
        is_due = header.delete_horizon_ms is not None
        first_timestamp_ms = header.max_timestamp_ms if is_due else header.base_timestamp_ms
        written = WrittenRecords(
            header.base_offset, header.last_offset, 0, first_timestamp_ms, header.producer_epoch
        )
    return written._replace(
        last_offset=header.last_offset, record_count=written.record_count + header.record_count
    )

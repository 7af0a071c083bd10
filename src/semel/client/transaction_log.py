"""The last values of one transactional id that its coordinator has written to its log."""

from collections.abc import Sequence
from typing import NamedTuple

from semel.client.batches import stored_batches
from semel.client.cluster import Cluster
from semel.client.offsets import beginnings_of, ends_of
from semel.errors import TransactionalIdNotFound
from semel.records.partitioning import partition_for
from semel.records.records import decode_batch
from semel.transactions import records
from semel.transactions.states import Status
from semel.transactions.transaction import Transaction
from semel.types import TopicPartition

TRANSACTIONS_TOPIC = "__transaction_state"

_WINDOW_FIRST = 1000
_WINDOW_GROWTH = 4
_COMPLETED = frozenset({Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT})


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
    place = await _place_of(cluster, transactional_id)
    start = (await beginnings_of(cluster, [place]))[place]
    stop = (await ends_of(cluster, [place]))[place]
    window = _WINDOW_FIRST
    values: list[StoredValue] = []
    while start < stop and not _reaches_back(values, transaction_count):
        begin = max(start, stop - window)
        values = await _values(cluster, place, transactional_id, begin, stop) + values
        stop, window = begin, window * _WINDOW_GROWTH
    if not values:
        raise TransactionalIdNotFound(f"transactional id {transactional_id} is not known")
    return values


async def _place_of(cluster: Cluster, transactional_id: str) -> TopicPartition:
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
    cluster: Cluster, place: TopicPartition, transactional_id: str, start: int, stop: int
) -> list[StoredValue]:
    values = []
    async for batch in stored_batches(cluster, place, start, stop):
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

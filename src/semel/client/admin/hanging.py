"""Transactions that hold back readers of a partition and that nobody is going to end.

A coordinator ends a transaction in every partition before it forgets it, and learns of a
partition before anything is written there. So what a partition has open, while its coordinator
does not know it as open, stays open for ever, unless it has just ended; a second look tells.
"""

import enum
from collections.abc import Collection, Iterable
from typing import NamedTuple

from semel.client.admin.transactions import (
    ActiveProducer,
    TransactionDescription,
    active_producers,
    describe_listed,
    list_all,
)
from semel.client.cluster.cluster import Cluster
from semel.types import TopicPartition

GRACE_MS = 60_000
"""Coordinators look for overdue transactions now and then only, and clocks differ."""


class Reason(enum.Enum):
    UNKNOWN = "no coordinator knows its producer"
    LEFT_BEHIND = "its coordinator has nothing open here"
    OVERDUE = "its time is up"


class Hanging(NamedTuple):
    producer: ActiveProducer
    """With the partition and the first offset in it."""
    reason: Reason
    transactional_id: str | None


async def find_hanging(
    cluster: Cluster, partitions: Collection[TopicPartition], now_ms: int
) -> list[Hanging]:
    """The hanging transactions of these partitions."""
    suspects = await _open_in(cluster, partitions)
    found = _judge_all(suspects, await descriptions_by_producer(cluster, suspects), now_ms)
    if not found:
        return []
    again = await _open_in(cluster, {each.producer.partition for each in found})
    still_open = {_transaction_key(producer) for producer in again}
    return [each for each in found if _transaction_key(each.producer) in still_open]


async def descriptions_by_producer(
    cluster: Cluster, producers: Iterable[ActiveProducer]
) -> dict[int, TransactionDescription]:
    """What coordinators know of these producer ids."""
    producer_ids = {producer.producer_id for producer in producers}
    if not producer_ids:
        return {}
    listed = await list_all(cluster, producer_ids=producer_ids)
    described = await describe_listed(cluster, listed)
    return {each.producer_id: each for each in described.values()}


def judge(
    producer: ActiveProducer, known: TransactionDescription | None, now_ms: int
) -> Reason | None:
    """Why the transaction that this producer has open in its partition hangs, if it does."""
    if known is None:
        return Reason.UNKNOWN
    if not known.is_open or producer.partition not in known.partitions:
        return Reason.LEFT_BEHIND
    started_at_ms = now_ms if known.started_at_ms is None else known.started_at_ms
    is_overdue = now_ms > started_at_ms + known.timeout_ms + GRACE_MS
    return Reason.OVERDUE if is_overdue else None


def _judge_all(
    suspects: Iterable[ActiveProducer], known: dict[int, TransactionDescription], now_ms: int
) -> list[Hanging]:
    found = []
    for producer in suspects:
        description = known.get(producer.producer_id)
        reason = judge(producer, description, now_ms)
        if reason is not None:
            transactional_id = description.transactional_id if description else None
            found.append(Hanging(producer, reason, transactional_id))
    return found


async def _open_in(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> list[ActiveProducer]:
    producers = await active_producers(cluster, partitions)
    return [producer for producer in producers if producer.first_offset is not None]


def _transaction_key(producer: ActiveProducer) -> tuple[TopicPartition, int, int | None]:
    # The first offset tells a transaction from the next one of the same producer.
    return producer.partition, producer.producer_id, producer.first_offset

"""One transactional id, as a value. `__transaction_state` holds its successive versions."""

import msgspec

from semel.transactions.states import OPEN, PREPARED, Status
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    OFFSETS_TOPIC,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)

NO_TERM = Term(-1)
"""Older than every term: the epoch of a value that does not say who issued it counts as spent."""

NO_TIME_MS = -1


class Transaction(msgspec.Struct, frozen=True, gc=False, kw_only=True, array_like=True):
    """Without garbage tracking, since values of values cannot form a cycle."""

    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    status: Status
    last_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    """The epoch before this one, if a retry under it is to be answered as its original."""
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    """Where `last_producer_epoch` belongs, if epochs ran out and the producer id was changed."""
    next_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer id that the completion of a prepared transaction moves to."""
    partitions: frozenset[TopicPartition] = frozenset()
    """Those with data, and those of `__consumer_offsets` with pending offsets."""
    started_at_ms: int = NO_TIME_MS
    last_update_ms: int = NO_TIME_MS
    """What is shown, as `started_at_ms`: by which clock anything ends is the store's to know."""
    client_version: int = 0
    """The dialect of the request that opened or ended it, as `transaction.version` counts."""
    epoch_term: Term = NO_TERM
    """The term that issued `producer_epoch`. Law: it changes only together with the epoch."""
    is_doomed: bool = False
    """Set while ONGOING, if it can only be aborted."""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def is_prepared(self) -> bool:
        return self.status in PREPARED


def dead(transactional_id: TransactionalId) -> Transaction:
    """What is left of a transactional id that has expired: its name."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=0,
        status=Status.DEAD,
    )


def offsets_partition(index: int) -> TopicPartition:
    """The partition of `__consumer_offsets` that takes part when offsets are pending in it."""
    return TopicPartition(OFFSETS_TOPIC, index)

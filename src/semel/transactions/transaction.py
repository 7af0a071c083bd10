"""One transactional id, as a value: its states and which may follow which, and what is kept of it.

`__transaction_state` holds its successive versions.
"""

import enum
from collections.abc import Mapping, Set
from typing import NamedTuple

import msgspec

from semel.transactions.key import TransactionKey
from semel.transactions.participants import NOBODY
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


class Status(enum.IntEnum):
    """Numbered as Kafka stores them in `__transaction_state`."""

    EMPTY = 0
    """Initialised; nothing was ever written under this epoch."""
    ONGOING = 1
    """At least one partition has joined."""
    PREPARE_COMMIT = 2
    """Decided, and not to be undone; not every partition has its marker."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """Every partition has its marker; the next transaction may begin."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """Forgotten: the transactional id has expired. Stored as a record without a value."""

    @property
    def label(self) -> str:
        """As Kafka names it to the client."""
        return "".join(word.capitalize() for word in self.name.split("_"))


FOLLOWERS: Mapping[Status, frozenset[Status]] = {
    # A TV2 client that does not know whether anything was begun may abort at any time, hence
    # PREPARE_ABORT behind a status in which nothing is open.
    Status.EMPTY: frozenset({Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, Status.DEAD}),
    Status.ONGOING: frozenset({Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT}),
    # Of several lanes that take part one may not be sure to have all that was written there.
    Status.PREPARE_COMMIT: frozenset(
        {Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT}
    ),
    Status.PREPARE_ABORT: frozenset({Status.PREPARE_ABORT, Status.COMPLETE_ABORT}),
    Status.COMPLETE_COMMIT: frozenset(
        {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, Status.DEAD}
    ),
    Status.COMPLETE_ABORT: frozenset(
        {Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT, Status.DEAD}
    ),
    Status.DEAD: frozenset(),
}

PREPARED = frozenset({Status.PREPARE_COMMIT, Status.PREPARE_ABORT})
OPEN = PREPARED | {Status.ONGOING}


class JoinedLane(NamedTuple):
    """Another lane than the coordinator's in which partitions take part."""

    lane: int
    term: Term
    """In which it has joined; NO_TERM if partitions of it were added and nothing has joined."""


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
    partitions: Set[TopicPartition] = NOBODY
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
    lanes: tuple[JoinedLane, ...] = ()
    """While it is open, by their numbers. Law: all that lies in none of them lies in the
    coordinator's own."""
    key: TransactionKey | None = None
    """By which they know it: of the last transaction that had any."""
    is_voted_down: bool = False
    """Its client has asked to commit, and a lane was not sure to have all that was written."""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def is_prepared(self) -> bool:
        return self.status in PREPARED

    @property
    def joined_lanes(self) -> tuple[JoinedLane, ...]:
        """Those that have something to lose."""
        lanes = self.lanes
        return tuple([each for each in lanes if each.term != NO_TERM]) if lanes else lanes


class TransactionsSnapshot(msgspec.Struct, frozen=True):
    """What a checkpoint keeps of the transactional ids: all that lasts, as one value."""

    values: tuple[Transaction, ...] = ()
    changed_ms: tuple[int, ...] | None = None
    """When each was given its value; None in a checkpoint that knows one time alone."""


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

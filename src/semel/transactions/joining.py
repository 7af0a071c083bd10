"""Partitions joining a transaction: the first of them opens it and starts its timer.

And whether a batch may be appended: what Produce and TxnOffsetCommit ask before anything is
written. The order of these checks is what clients rely on: a stale epoch is said before anything
else about the transaction.
"""

from msgspec.structs import replace

from semel.errors import ConcurrentTransactions, InvalidTransactionState
from semel.transactions.commands import AddPartitions, Context, Decision, WriteRecords
from semel.transactions.dialect import Dialect
from semel.transactions.epochs import check_current, check_usable
from semel.transactions.outcome import changed, unchanged
from semel.transactions.participants import NOBODY, participants
from semel.transactions.transaction import Status, Transaction
from semel.types import ProducerEpoch, ProducerId, Term, TopicPartition


def add(current: Transaction | None, command: AddPartitions, context: Context) -> Decision:
    current = check_joinable(
        current,
        command.producer_id,
        command.producer_epoch,
        context.term,
        was_told=command.was_told,
    )
    return _join(current, command.partitions, command.dialect, context)


def write(current: Transaction | None, command: WriteRecords, context: Context) -> Decision:
    current = check_joinable(current, command.producer_id, command.producer_epoch, context.term)
    for partition in command.partitions:
        check_added(current, partition, command.dialect)
    return _join(current, command.partitions, command.dialect, context)


def _join(
    current: Transaction,
    partitions: frozenset[TopicPartition],
    dialect: Dialect,
    context: Context,
) -> Decision:
    is_ongoing = current.status is Status.ONGOING
    if not partitions or (is_ongoing and partitions <= current.partitions):
        return unchanged(current)
    before = participants(current.partitions) if is_ongoing else NOBODY
    return changed(
        context,
        replace(
            current,
            status=Status.ONGOING,
            partitions=before.joined(partitions),
            started_at_ms=current.started_at_ms if is_ongoing else context.wall_ms,
            last_update_ms=context.wall_ms,
            client_version=int(dialect),
        ),
    )


# What is checked before a batch is appended


def check_added(current: Transaction, partition: TopicPartition, dialect: Dialect) -> bool:
    """True if the partition is part of the transaction; False if it must join with this batch.

    Only TV2 lets partitions join.
    """
    if current.status is Status.ONGOING and partition in current.partitions:
        return True
    if dialect is Dialect.TV1:
        raise InvalidTransactionState(
            f"{partition} was not added to the transaction of {current.transactional_id!r}, "
            f"which is {current.status.label}"
        )
    return False


def check_joinable(
    current: Transaction | None,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    term: Term,
    *,
    was_told: bool = False,
) -> Transaction:
    current = check_current(current, producer_id, producer_epoch)
    if current.is_prepared:
        raise ConcurrentTransactions(
            f"the last transaction of {current.transactional_id!r} is {current.status.label}"
        )
    check_usable(current, term, was_told=was_told)
    return current


def check_plain(owner: Transaction | None) -> None:
    """A batch outside of transactions, from a producer id that `owner` has, if anyone."""
    if owner is not None and owner.is_open:
        raise InvalidTransactionState(
            f"producer {owner.producer_id} has an open transaction; this batch is not part of it"
        )

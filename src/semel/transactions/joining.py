"""Partitions joining a transaction: the first of them opens it and starts its timer.

And whether a batch may be appended: what Produce and TxnOffsetCommit ask before anything is
written. The order of these checks is what clients rely on: a stale epoch is said before anything
else about the transaction.
"""

from msgspec.structs import replace

from semel.errors import ConcurrentTransactions, InvalidTransactionState, TransactionAbortable
from semel.transactions.commands import AddPartitions, Context, Decision, Join, WriteRecords
from semel.transactions.dialect import Dialect
from semel.transactions.epochs import check_current, check_usable
from semel.transactions.key import TransactionKey
from semel.transactions.outcome import changed, unchanged
from semel.transactions.participants import NOBODY, participants
from semel.transactions.transaction import NO_TERM, JoinedLane, Status, Transaction
from semel.types import ProducerEpoch, ProducerId, Term, TopicPartition


def add(current: Transaction | None, command: AddPartitions, context: Context) -> Decision:
    current = check_joinable(
        current,
        command.producer_id,
        command.producer_epoch,
        context.term,
        was_told=command.was_told,
    )
    if context.has_unheard_abort and current.status is not Status.ONGOING:
        # A request of it that waits in another lane would pass for one of the next transaction.
        raise ConcurrentTransactions(
            f"not all have heard that the last transaction of {current.transactional_id!r} "
            f"was aborted"
        )
    decision = _join(current, command.partitions, command.dialect, context)
    if not command.lanes:
        return decision
    opened = decision.values[-1] if decision.values else current
    known = dict(opened.lanes)
    if all(lane in known for lane in command.lanes):
        return decision
    for lane in command.lanes:
        known.setdefault(lane, NO_TERM)
    return changed(context, _with_lanes(opened, known, context))


def join(current: Transaction | None, command: Join, context: Context) -> Decision:
    """Law: a lane joins in one term. In a later one it may have lost what it had in the first."""
    current = check_joinable(current, command.producer_id, command.producer_epoch, context.term)
    for partition in command.partitions:
        check_added(current, partition, command.dialect)
    decision = _join(current, command.partitions, command.dialect, context)
    opened = decision.values[-1] if decision.values else current
    known = dict(opened.lanes)
    before = known.get(command.lane, NO_TERM)
    if before not in (NO_TERM, command.lane_term):
        marked = replace(current, is_doomed=True, last_update_ms=context.wall_ms)
        return changed(
            context,
            marked,
            refusal=TransactionAbortable(
                f"lane {command.lane} has joined the transaction of {current.transactional_id!r} "
                f"in term {before}; it is {command.lane_term} now, and writes may be lost"
            ),
        )
    if before == command.lane_term:
        return decision
    known[command.lane] = command.lane_term
    return changed(context, _with_lanes(opened, known, context))


def _with_lanes(current: Transaction, known: dict[int, Term], context: Context) -> Transaction:
    """The first of them gives the transaction its key."""
    key = current.key
    if not current.lanes:
        key = TransactionKey(
            context.lane,
            context.term,
            current.producer_id,
            current.producer_epoch,
            1 if key is None else key.number + 1,
        )
    lanes = tuple(JoinedLane(lane, known[lane]) for lane in sorted(known))
    return replace(current, lanes=lanes, key=key)


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
    before = participants(current.partitions) if is_ongoing else NOBODY
    if before.has_all(partitions):
        return unchanged(current)
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

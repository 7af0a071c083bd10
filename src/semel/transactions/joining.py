"""Partitions joining a transaction: the first of them opens it and starts its timer."""

from msgspec.structs import replace

from semel.transactions.commands import AddPartitions, Context, Decision, WriteRecords
from semel.transactions.dialect import Dialect
from semel.transactions.outcome import changed, unchanged
from semel.transactions.states import Status
from semel.transactions.transaction import Transaction
from semel.transactions.verification import check_joinable, check_member
from semel.types import TopicPartition


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
        check_member(current, partition, command.dialect)
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
    return changed(
        context,
        replace(
            current,
            status=Status.ONGOING,
            partitions=current.partitions | partitions if is_ongoing else partitions,
            started_at_ms=current.started_at_ms if is_ongoing else context.wall_ms,
            last_update_ms=context.wall_ms,
            client_version=int(dialect),
        ),
    )

"""Whether a batch may be appended: what Produce and TxnOffsetCommit ask before anything is written.

The order of the checks is what clients rely on: a stale epoch is said before anything else about
the transaction.
"""

from semel.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    TransactionCoordinatorFenced,
)
from semel.transactions.dialect import Dialect
from semel.transactions.epochs import check_current, check_usable
from semel.transactions.states import Status
from semel.transactions.transaction import Transaction
from semel.types import ProducerEpoch, ProducerId, Term, TopicPartition


def check_member(current: Transaction, partition: TopicPartition, dialect: Dialect) -> bool:
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


def check_coordinator(coordinator_epoch: int, term: Term) -> None:
    """Only the coordinator of this term or a later one may write markers (WriteTxnMarkers)."""
    if coordinator_epoch < term:
        raise TransactionCoordinatorFenced(
            f"coordinator epoch {coordinator_epoch} is over, it is {term} now"
        )

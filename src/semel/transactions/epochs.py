"""Producer epochs: how the next one is issued, and when one may no longer be used.

Law: an epoch is issued once, by one term, and 32767 is never handed out. The producer id of a
transactional id whose epochs have run out is replaced.
"""

from typing import Final

from msgspec.structs import replace

from semel.errors import InvalidProducerIdMapping, ProducerFenced, TransactionAbortable
from semel.transactions.commands import Context
from semel.transactions.transaction import Status, Transaction
from semel.types import (
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    Term,
)

LAST_EPOCH: Final = ProducerEpoch(EPOCH_MAX - 1)
"""The last one that is handed out; only markers may carry the one behind it."""


def is_exhausted(epoch: ProducerEpoch) -> bool:
    return epoch >= LAST_EPOCH


def epoch_after(epoch: ProducerEpoch) -> ProducerEpoch:
    return ProducerEpoch(min(epoch + 1, EPOCH_MAX))


def is_spent(current: Transaction, term: Term) -> bool:
    """Whether writes under this epoch may be lost.

    They were acknowledged before they were durable, and the frame that opened their transaction
    may itself be lost, so nothing in the value tells whether there were any.
    """
    return current.epoch_term < term


def check_current(
    current: Transaction | None, producer_id: ProducerId, epoch: ProducerEpoch
) -> Transaction:
    if current is None:
        raise InvalidProducerIdMapping(
            f"producer {producer_id} belongs to no transactional id, or it has expired"
        )
    if producer_id != current.producer_id:
        raise InvalidProducerIdMapping(
            f"{current.transactional_id!r} has producer id {current.producer_id}, not {producer_id}"
        )
    if epoch != current.producer_epoch:
        raise ProducerFenced(
            f"{current.transactional_id!r} is at epoch {current.producer_epoch}, not {epoch}"
        )
    return current


def check_usable(current: Transaction, term: Term, *, was_told: bool = False) -> None:
    """Raise if a transaction under the current epoch can only be aborted.

    A client that was told so, has aborted and comes back under a spent epoch does not know that
    it has to ask for another. It would be refused for ever, and is fenced instead.
    """
    if is_spent(current, term):
        lost = writes_lost(current, term)
        raise ProducerFenced(*lost.args) if was_told else lost
    if current.is_doomed:
        raise sequences_reused(current)


def writes_lost(current: Transaction, term: Term) -> TransactionAbortable:
    return TransactionAbortable(
        f"epoch {current.producer_epoch} of {current.transactional_id!r} was issued in "
        f"term {current.epoch_term}; it is {term} now, and writes may be lost"
    )


def sequences_reused(current: Transaction) -> TransactionAbortable:
    return TransactionAbortable(
        f"the transaction of {current.transactional_id!r} reused sequences for other records"
    )


def was_last(current: Transaction, producer_id: ProducerId, epoch: ProducerEpoch) -> bool:
    """Whether this is the epoch whose holder the present one was issued to."""
    if epoch == NO_PRODUCER_EPOCH or epoch != current.last_producer_epoch:
        return False
    if producer_id == current.producer_id:
        return epoch == current.producer_epoch - 1
    return (
        producer_id == current.previous_producer_id
        and is_exhausted(epoch)
        and current.producer_epoch == 0
    )


def prepare_bump(prepared: Transaction, context: Context) -> Transaction:
    """The prepared value under its next epoch, which its markers carry."""
    exhausted = is_exhausted(prepared.producer_epoch)
    return replace(
        prepared,
        producer_epoch=epoch_after(prepared.producer_epoch),
        last_producer_epoch=prepared.producer_epoch,
        next_producer_id=context.next_producer_id if exhausted else NO_PRODUCER_ID,
        epoch_term=context.term,
    )


def rotate(current: Transaction, producer_id: ProducerId, term: Term) -> Transaction:
    return replace(
        current,
        producer_id=producer_id,
        producer_epoch=ProducerEpoch(0),
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        epoch_term=term,
    )


def complete(prepared: Transaction, context: Context) -> Transaction:
    """The prepared transaction, with all its markers written."""
    committed = prepared.status is Status.PREPARE_COMMIT
    completed = replace(
        prepared,
        status=Status.COMPLETE_COMMIT if committed else Status.COMPLETE_ABORT,
        partitions=frozenset(),
        last_update_ms=context.wall_ms,
        is_doomed=False,
        lanes=(),
        is_voted_down=False,
    )
    if prepared.next_producer_id == NO_PRODUCER_ID:
        return completed
    return rotate(completed, prepared.next_producer_id, prepared.epoch_term)

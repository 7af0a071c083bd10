"""Ending a transaction: by its client, by its timer, by a new term.

A TV2 client gets its next epoch with the answer, so a request under the epoch before the current
one is a retry. A TV1 client keeps its epoch: only the status tells a retry, and under a newer
term not even that.
"""

from msgspec.structs import replace

from semel.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    ProducerFenced,
    RequestError,
    TransactionAbortable,
    TransactionCoordinatorFenced,
)
from semel.transactions.commands import Context, Decision, Doom, End
from semel.transactions.dialect import Dialect
from semel.transactions.epochs import (
    check_current,
    check_usable,
    complete,
    is_spent,
    sequences_reused,
    was_last,
    writes_lost,
)
from semel.transactions.outcome import changed, markers_of, prepare, unchanged
from semel.transactions.transaction import NO_TERM, Status, Transaction
from semel.types import Term


def end(current: Transaction | None, command: End, context: Context) -> Decision:
    is_tv2 = command.dialect is Dialect.TV2
    if (
        is_tv2
        and current is not None
        and was_last(current, command.producer_id, command.producer_epoch)
    ):
        return _answer_retry(current, command.commit)
    current = check_current(current, command.producer_id, command.producer_epoch)
    if current.is_prepared:
        raise _refused_while_prepared(current, command, context.term)
    if is_tv2:
        return _end_tv2(current, command.commit, context)
    return _end_tv1(current, command, context)


def _answer_retry(current: Transaction, commit: bool) -> Decision:
    if current.status is _completed(commit):
        return unchanged(current)
    if current.status is _prepared(commit):
        raise _still_prepared(current)
    if not commit and current.status in (Status.COMPLETE_COMMIT, Status.PREPARE_COMMIT):
        raise InvalidTransactionState(
            f"the transaction of {current.transactional_id!r} was committed; it cannot be aborted"
        )
    if commit and current.status is Status.COMPLETE_ABORT and current.is_voted_down:
        raise voted_down(current)
    # Its timer was faster, or a new incarnation has begun.
    raise ProducerFenced(
        f"{current.transactional_id!r} is {current.status.label} at epoch {current.producer_epoch}"
    )


def _end_tv2(current: Transaction, commit: bool, context: Context) -> Decision:
    if commit:
        check_usable(current, context.term)
        if current.status is not Status.ONGOING:
            raise _nothing_to_end(current, commit)
    return _ended(current, context, Dialect.TV2, commit=commit)


def _end_tv1(current: Transaction, command: End, context: Context) -> Decision:
    commit = command.commit
    if current.status is Status.ONGOING:
        if commit:
            check_usable(current, context.term)
        return _ended(current, context, Dialect.TV1, commit=commit)
    if is_spent(current, context.term):
        return _end_tv1_spent(current, command, context)
    if current.status is _completed(commit):
        return unchanged(current)
    raise _nothing_to_end(current, commit)


def _end_tv1_spent(current: Transaction, command: End, context: Context) -> Decision:
    """What was open was aborted when the term rose, or its frames are lost.

    Nothing changes, so that only an epoch issued in this term ends the refusals.
    """
    if not command.commit and not command.asks_by_aborting:
        return unchanged(current)
    if command.commit and current.status is Status.COMPLETE_COMMIT:
        raise ProducerFenced(
            f"whether this commit of {current.transactional_id!r} repeats the last one, "
            f"or its transaction was lost in term {current.epoch_term}, cannot be known"
        )
    raise writes_lost(current, context.term)


def _ended(current: Transaction, context: Context, dialect: Dialect, *, commit: bool) -> Decision:
    spoken = replace(current, client_version=int(dialect))
    return prepare(spoken, context, commit=commit, bump=dialect is Dialect.TV2)


def abort(current: Transaction | None, context: Context) -> Decision:
    """Abort and fence: the bumped epoch is what tells the client, also one that commits just now.

    Its holder may ask for the new epoch by naming the old one (KIP-588).
    """
    if current is None or current.status is not Status.ONGOING:
        return unchanged(current)
    return prepare(current, context, commit=False, bump=True)


def raise_term(current: Transaction | None, context: Context) -> Decision:
    """The epoch stays as it is and is spent by the new term."""
    if current is None or not current.is_open:
        return unchanged(current)
    if current.status is Status.PREPARE_COMMIT and current.joined_lanes:
        # The lanes that take part decide, and nobody else.
        return unchanged(current)
    if current.is_prepared:
        return changed(context, complete(current, context), markers=markers_of(current, context))
    return prepare(current, context, commit=False, bump=False)


def finish(current: Transaction | None, context: Context) -> Decision:
    """Every partition has been told, or surely will be: the next transaction may begin."""
    assert current is not None
    assert current.is_prepared, current
    # If other lanes take part, this is written in a frame behind the one that has prepared it.
    markers = markers_of(current, context) if current.lanes else None
    return changed(context, complete(current, context), markers=markers)


def vote_down(current: Transaction | None, context: Context) -> Decision:
    """The commit that was asked for becomes an abort.

    A TV2 client has the next epoch by then. Of a TV1 client the epoch is spent, so that it hears
    the same when it asks again, and goes on under a new one.
    """
    assert current is not None
    assert current.status is Status.PREPARE_COMMIT, current
    aborted = replace(current, status=Status.PREPARE_ABORT)
    completed = replace(complete(aborted, context), is_voted_down=True)
    if current.client_version < Dialect.TV2:
        completed = replace(completed, epoch_term=NO_TERM)
    return changed(context, completed, markers=markers_of(aborted, context))


def voted_down(current: Transaction) -> TransactionAbortable:
    return TransactionAbortable(
        f"the transaction of {current.transactional_id!r} could not be committed: "
        f"a lane may have lost writes of it"
    )


def doom(current: Transaction | None, command: Doom, context: Context) -> Decision:
    """Mark the transaction, so that its commit is refused also after a restart."""
    current = check_current(current, command.producer_id, command.producer_epoch)
    refusal = sequences_reused(current)
    if current.status is not Status.ONGOING or current.is_doomed:
        raise refusal
    marked = replace(current, is_doomed=True, last_update_ms=context.wall_ms)
    return changed(context, marked, refusal=refusal)


def _completed(commit: bool) -> Status:
    return Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT


def _prepared(commit: bool) -> Status:
    return Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT


def _refused_while_prepared(current: Transaction, command: End, term: Term) -> RequestError:
    if is_spent(current, term):
        # Over lanes the client may have heard that it is committed, and have begun the next one.
        return _still_prepared(current)
    if command.dialect is Dialect.TV2:
        # The epoch of a prepared transaction was not yet given to anyone.
        return ProducerFenced(f"{current.transactional_id!r} is {current.status.label}")
    if current.status is _prepared(command.commit):
        return _still_prepared(current)
    return _nothing_to_end(current, command.commit)


def _still_prepared(current: Transaction) -> ConcurrentTransactions:
    return ConcurrentTransactions(
        f"the transaction of {current.transactional_id!r} is {current.status.label}"
    )


def _nothing_to_end(current: Transaction, commit: bool) -> InvalidTransactionState:
    return InvalidTransactionState(
        f"{'commit' if commit else 'abort'} of {current.transactional_id!r}, "
        f"which is {current.status.label}"
    )


def check_coordinator(coordinator_epoch: int, term: Term) -> None:
    """Only the coordinator of this term or a later one may write markers (WriteTxnMarkers)."""
    if coordinator_epoch < term:
        raise TransactionCoordinatorFenced(
            f"coordinator epoch {coordinator_epoch} is over, it is {term} now"
        )

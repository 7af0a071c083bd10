"""InitProducerId: a new incarnation fences the old one and ends what it left open.

Law: it ends in EMPTY, and remembers the epoch before only if its holder asked for the next one.
Otherwise a zombie that retries would be handed the epoch of its successor.
"""

from msgspec.structs import replace

from semel.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
)
from semel.transactions.commands import BeginAnew, Context, Decision, InitProducer
from semel.transactions.epochs import epoch_after, is_exhausted, rotate, was_last
from semel.transactions.outcome import changed, prepare, unchanged
from semel.transactions.transaction import NO_TIME_MS, Status, Transaction
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch

ID_BYTES_MAX = 2**15 - 1
"""What the key of a record in `__transaction_state` can hold."""


def initialise(current: Transaction | None, command: InitProducer, context: Context) -> Decision:
    _check_request(command, context)
    if current is None:
        return changed(context, _created(command, context))
    is_retry = _check_producer(current, command)
    if current.is_prepared:
        raise ConcurrentTransactions(
            f"the last transaction of {current.transactional_id!r} is {current.status.label}"
        )
    if is_retry:
        return unchanged(current)
    if current.status is Status.ONGOING:
        rest = BeginAnew(last_epoch(current, command), command.timeout_ms)
        return prepare(current, context, commit=False, bump=True, then=rest)
    if is_exhausted(current.producer_epoch):
        bumped = rotate(current, context.next_producer_id, context.term)
    else:
        bumped = replace(
            current,
            producer_epoch=epoch_after(current.producer_epoch),
            epoch_term=context.term,
        )
    rest = BeginAnew(last_epoch(current, command), command.timeout_ms)
    return changed(context, _emptied(bumped, rest, context))


def begin_anew(current: Transaction | None, command: BeginAnew, context: Context) -> Decision:
    assert current is not None
    return changed(context, _emptied(current, command, context))


def last_epoch(current: Transaction, command: InitProducer) -> ProducerEpoch:
    """The epoch whose holder may retry this request: none, unless it has named itself."""
    return NO_PRODUCER_EPOCH if _is_newcomer(command) else current.producer_epoch


def _is_newcomer(command: InitProducer) -> bool:
    return command.producer_id == NO_PRODUCER_ID


def _check_request(command: InitProducer, context: Context) -> None:
    transactional_id = command.transactional_id
    if not transactional_id:
        raise InvalidRequest("a transactional id cannot be empty")
    if len(transactional_id.encode()) > ID_BYTES_MAX:
        raise InvalidRequest(f"a transactional id cannot have more than {ID_BYTES_MAX} bytes")
    if (command.producer_id < 0) != (command.producer_epoch < 0):
        raise InvalidRequest(
            f"producer id {command.producer_id} and epoch {command.producer_epoch}: "
            f"either both are given or none"
        )
    if not 0 < command.timeout_ms <= context.settings.timeout_ms_max:
        raise InvalidTransactionTimeout(
            f"transaction.timeout.ms is {command.timeout_ms}, "
            f"not between 1 and {context.settings.timeout_ms_max}"
        )


def _check_producer(current: Transaction, command: InitProducer) -> bool:
    """Whether a producer that names itself has been answered before; it is fenced otherwise."""
    if _is_newcomer(command):
        return False
    if was_last(current, command.producer_id, command.producer_epoch):
        return True
    if (command.producer_id, command.producer_epoch) != (
        current.producer_id,
        current.producer_epoch,
    ):
        raise ProducerFenced(
            f"{current.transactional_id!r} is at producer id {current.producer_id} and epoch "
            f"{current.producer_epoch}, not {command.producer_id} and {command.producer_epoch}"
        )
    return False


def _created(command: InitProducer, context: Context) -> Transaction:
    return Transaction(
        transactional_id=command.transactional_id,
        producer_id=context.next_producer_id,
        producer_epoch=ProducerEpoch(0),
        timeout_ms=command.timeout_ms,
        status=Status.EMPTY,
        last_update_ms=context.wall_ms,
        epoch_term=context.term,
    )


def _emptied(bumped: Transaction, rest: BeginAnew, context: Context) -> Transaction:
    return replace(
        bumped,
        status=Status.EMPTY,
        last_producer_epoch=rest.last_producer_epoch,
        timeout_ms=rest.timeout_ms,
        started_at_ms=NO_TIME_MS,
        last_update_ms=context.wall_ms,
    )

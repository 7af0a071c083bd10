"""Putting a decision together: its values, the markers, the producer id it takes."""

from msgspec.structs import replace

from semel.errors import RequestError
from semel.transactions.commands import BeginAnew, Context, Decision, Markers
from semel.transactions.epochs import prepare_bump
from semel.transactions.participants import participants
from semel.transactions.transaction import Status, Transaction
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def unchanged(current: Transaction | None) -> Decision:
    """Nothing is written; whoever retries is answered as the original was."""
    if current is None:
        return Decision(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return Decision(current.producer_id, current.producer_epoch)


def changed(
    context: Context,
    *values: Transaction,
    markers: Markers | None = None,
    refusal: RequestError | None = None,
    then: BeginAnew | None = None,
) -> Decision:
    taken = None
    for value in values:
        # It was never given to anyone, so wherever it occurs it was taken now.
        if context.next_producer_id in (value.producer_id, value.next_producer_id):
            taken = context.next_producer_id
    newest = values[-1]
    return Decision(
        newest.producer_id, newest.producer_epoch, values, markers, taken, refusal, then
    )


def prepare(
    current: Transaction,
    context: Context,
    *,
    commit: bool,
    bump: bool,
    then: BeginAnew | None = None,
) -> Decision:
    """The end is decided: the prepared value, and the markers that its partitions are to get.

    With `bump` they carry the next epoch, so that a late write of this transaction can never be
    taken for a part of the next (KIP-890).
    """
    prepared = replace(
        current,
        status=Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT,
        # One that ends before anything was written began when it ended.
        started_at_ms=current.started_at_ms if current.is_open else context.wall_ms,
        last_update_ms=context.wall_ms,
        is_doomed=False,
    )
    if bump:
        prepared = prepare_bump(prepared, context)
    return changed(context, prepared, markers=markers_of(prepared, context), then=then)


def markers_of(prepared: Transaction, context: Context) -> Markers | None:
    if not prepared.partitions:
        return None
    return Markers(
        prepared.producer_id,
        prepared.producer_epoch,
        prepared.status is Status.PREPARE_COMMIT,
        participants(prepared.partitions).in_order(),
        context.term,
    )

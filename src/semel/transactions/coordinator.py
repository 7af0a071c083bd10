"""The transaction coordinator's decisions, as one pure function.

`decide` changes nothing: it returns the values to write, the markers that belong into the same
frame, and what to answer, or it raises a refusal. Whoever appends the frame applies the values,
live and at recovery alike; the newest value of a transactional id wins.
"""

from msgspec.structs import replace

from semel.transactions import ending, initialising, joining
from semel.transactions.commands import (
    Abort,
    AddOffsets,
    AddPartitions,
    BeginAnew,
    Command,
    Complete,
    Context,
    Decision,
    Doom,
    End,
    ExpireId,
    ForgetTopic,
    InitProducer,
    Join,
    RaiseTerm,
    VoteDown,
    WriteOffsets,
    WriteRecords,
)
from semel.transactions.outcome import changed, unchanged
from semel.transactions.participants import participants
from semel.transactions.transaction import FOLLOWERS, Transaction, dead, offsets_partition


def complete_at_once(decision: Decision, context: Context) -> Decision:
    """As the decision, which prepares an end, and its completion: all who take part are at hand,
    and get their markers in the same frame."""
    rest: list[Command] = [Complete()]
    if decision.then is not None:
        rest.append(decision.then)
    for each in rest:
        following = decide(decision.values[-1], each, context)
        decision = Decision(
            following.producer_id,
            following.producer_epoch,
            decision.values + following.values,
            decision.markers,
            decision.taken_producer_id,
            decision.refusal,
        )
    return decision


def decide(current: Transaction | None, command: Command, context: Context) -> Decision:
    decision = _decide(current, command, context)
    before = current
    for after in decision.values:
        if before is not None:
            assert after.status in FOLLOWERS[before.status], (before, after)
        before = after
    return decision


def _decide(  # noqa: C901, PLR0911, PLR0912  One case per command.
    current: Transaction | None, command: Command, context: Context
) -> Decision:
    match command:
        case WriteRecords():
            return joining.write(current, command, context)
        case End():
            return ending.end(current, command, context)
        case Complete():
            return ending.finish(current, context)
        case AddPartitions():
            return joining.add(current, command, context)
        case Join():
            return joining.join(current, command, context)
        case VoteDown():
            return ending.vote_down(current, context)
        case InitProducer():
            return initialising.initialise(current, command, context)
        case AddOffsets(producer_id, epoch, index, dialect, was_told, lanes):
            partitions = frozenset({offsets_partition(index)})
            added = AddPartitions(producer_id, epoch, partitions, dialect, was_told, lanes)
            return joining.add(current, added, context)
        case WriteOffsets(producer_id, epoch, index, dialect):
            partitions = frozenset({offsets_partition(index)})
            written = WriteRecords(producer_id, epoch, partitions, dialect)
            return joining.write(current, written, context)
        case Doom():
            return ending.doom(current, command, context)
        case Abort():
            return ending.abort(current, context)
        case RaiseTerm():
            return ending.raise_term(current, context)
        case BeginAnew():
            return initialising.begin_anew(current, command, context)
        case ForgetTopic():
            return _forget_topic(current, command, context)
        case ExpireId():
            return _expire_id(current, context)


def _forget_topic(current: Transaction | None, command: ForgetTopic, context: Context) -> Decision:
    if current is None:
        return unchanged(current)
    left = participants(current.partitions).without(command.topic)
    if len(left) == len(current.partitions):
        return unchanged(current)
    return changed(context, replace(current, partitions=left, last_update_ms=context.wall_ms))


def _expire_id(current: Transaction | None, context: Context) -> Decision:
    if current is None or current.is_open:
        return unchanged(current)
    return changed(context, dead(current.transactional_id))

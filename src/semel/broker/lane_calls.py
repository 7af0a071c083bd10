"""Answers what other lanes ask of a lane that is led here.

Each answer waits for what makes it true: a join for the kernel, since a killed process comes back
in the same term; a vote for the disk; and that there is nothing to end, for a barrier, as one that
no longer leads would say the same.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from semel.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    CorruptJournal,
    CorruptMessage,
    InvalidTransactionState,
    JournalFailed,
    JournalFull,
    NotCoordinator,
    RequestError,
    UnknownTopicOrPartition,
)
from semel.errors import NotLeaderOrFollower as NotLeader
from semel.lane.calls import (
    AnyCall,
    AnyReply,
    AskLags,
    AskOutcomes,
    AskToAbort,
    AskToJoin,
    AskToPrepare,
    Confirmed,
    ConfirmEnds,
    Heard,
    Lag,
    Lags,
    LaneAway,
    MayJoin,
    Outcome,
    Refused,
    TellOutcomes,
    Told,
    Voted,
)
from semel.lane.lane import Lane
from semel.lane.participating import NotYet, Vote
from semel.lane.transactions import Transact
from semel.transactions.commands import Abort, Join
from semel.transactions.dialect import Dialect
from semel.types import Offset, TopicPartition, TransactionalId

if TYPE_CHECKING:
    from semel.broker.broker import Broker


async def answer_call(broker: "Broker", lane: Lane, call: AnyCall) -> AnyReply:
    """Answer when what the reply says holds: written, durable, or behind a barrier.

    Raises LaneAway if the lane steps down meanwhile, or cannot say it now; then whoever asks asks
    again.
    """
    try:
        return await _answered(broker, lane, call)
    except (NotLeader, NotYet, JournalFull, JournalFailed) as error:
        raise LaneAway(str(error)) from error


async def _answered(broker: "Broker", lane: Lane, call: AnyCall) -> AnyReply:
    reply: AnyReply
    match call:
        case AskToJoin():
            reply = await _join(broker, lane, call)
        case AskToPrepare():
            reply = await _vote(lane, call)
        case TellOutcomes():
            _check_terms(lane, call.outcomes)
            broker.across.joins(lane).end(call.outcomes)
            reply = Heard()
        case ConfirmEnds():
            reply = await _confirm(broker, lane, call)
        case AskOutcomes():
            reply = await _tell(lane, call)
        case AskToAbort():
            reply = await _abort(lane, call)
        case AskLags():
            # It may take a task.
            await asyncio.sleep(0)
            reply = await _lags(lane, call)
    return reply


async def _join(broker: "Broker", lane: Lane, call: AskToJoin) -> AnyReply:
    since = lane.end
    try:
        name = TransactionalId(call.transactional_id)
        if broker.coordinators.of_transactional_id(name) is not lane:
            raise NotCoordinator(f"the coordinator of {name!r} is elsewhere")
        partitions = frozenset(TopicPartition(*each) for each in call.partitions)
        dialect = Dialect(call.dialect)
        command = Join(
            call.producer_id, call.producer_epoch, partitions, dialect, call.lane, call.term
        )
        decision = lane.submit(Transact(name, command))
        if decision.refusal is not None:
            raise decision.refusal
    except NotLeader:
        raise
    except RequestError as error:
        refusal = error
        if isinstance(error, InvalidTransactionState):
            # It may not be a part of the transaction any more, as it was deleted.
            refusal = _of_deleted(broker, call) or error
        await lane.until(partial(lane.when_all_certain, since))
        return Refused(refusal.code, str(refusal))
    except JournalFull as full:
        return Refused(CoordinatorNotAvailable.code, str(full))
    current = lane.view.transaction(name)
    assert current is not None
    assert current.key is not None, current
    key = current.key
    if lane.is_epoch_durable(name):
        await lane.until(lane.when_all_written)
    else:
        # The client has it from one that leads instead of this one, and has counted as far: under
        # this key its records would belong to a transaction that nobody there knows.
        await lane.until(lane.when_all_durable)
    return MayJoin(key)


def _of_deleted(broker: "Broker", call: AskToJoin) -> UnknownTopicOrPartition | None:
    """Which the lane that asks may not have heard of."""
    for topic, _ in call.partitions:
        if broker.lanes.knows_topics and broker.lanes.catalogue.get(topic) is None:
            return UnknownTopicOrPartition(f"{topic!r} was deleted")
    return None


async def _vote(lane: Lane, call: AskToPrepare) -> Voted:
    yes = lane.submit(Vote(call.key, call.transactional_id, call.term))
    await lane.until(lane.when_all_durable)
    return Voted(yes)


def _check_terms(lane: Lane, outcomes: tuple[Outcome, ...]) -> None:
    """Who led before the lane joined holds nothing that could be ended."""
    joined = max((outcome.term for outcome in outcomes), default=-1)
    if lane.view.term < joined:
        raise NotLeader(f"a lane of term {lane.view.term} is told what term {joined} has joined")


async def _confirm(broker: "Broker", lane: Lane, call: ConfirmEnds) -> Confirmed:
    since = lane.end
    _check_terms(lane, call.outcomes)
    broker.across.joins(lane).end(call.outcomes)
    if all(lane.view.has_ended(outcome.key) for outcome in call.outcomes):
        await lane.until(lane.when_all_durable)
    else:
        await lane.until(partial(lane.when_all_certain, since))
    return Confirmed()


async def _tell(lane: Lane, call: AskOutcomes) -> Told:
    """A commit is told at once, as nothing can undo it. Whatever is not known is aborted."""
    latest = max((key.term for key in call.keys), default=-1)
    if lane.view.term < latest:
        raise NotLeader(f"a lane of term {lane.view.term} is asked about term {latest}")
    outcomes = tuple(lane.view.outcome(key) for key in call.keys)
    is_certain = call.when_durable or any(each is not None and not each.commit for each in outcomes)
    if is_certain:
        await lane.until(lane.when_all_durable)
    return Told(outcomes)


async def _abort(lane: Lane, call: AskToAbort) -> AnyReply:
    name = TransactionalId(call.transactional_id)
    current = lane.view.transaction(name)
    if current is not None and current.key == call.key:
        if current.is_prepared:
            return Refused(ConcurrentTransactions.code, "it is about to end by itself")
        lane.submit(Transact(name, Abort()))
    await lane.until(lane.when_all_durable)
    return Heard()


async def _lags(lane: Lane, call: AskLags) -> Lags:
    """A number for who watches: it waits for no disk but to find times."""
    return Lags(tuple([await _lag(lane, *each) for each in call.positions]))


async def _lag(lane: Lane, topic: str, index: int, offset: int) -> Lag | None:
    partition = lane.view.written(topic, index)
    if partition is None:
        return Lag(0, -1) if lane.view.hosts_partition(topic, index) else None
    start = Offset(max(offset, partition.log_start_offset))
    if start >= partition.high_watermark:
        return Lag(0, -1)
    try:
        since_ms = await lane.log.time_at(partition, start)
    except (CorruptJournal, CorruptMessage, OSError):
        # It may just have been moved. What is damaged is told to who reads it.
        since_ms = None
    return Lag(partition.high_watermark - start, -1 if since_ms is None else since_ms)

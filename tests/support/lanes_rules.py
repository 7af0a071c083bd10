"""Schedules aimed at the rules of transactions over lanes: each gives what it saw that must not be.

One for each way in which a rule can be broken that random schedules hardly find. They are run as
they are, and with the rule left out.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

from broker.handled_producer import TIMESTAMP_MS, HandledProducer
from semel.broker.broker import Broker
from semel.errors import NONE, NotLeaderOrFollower, OffsetNotAvailable
from semel.lane.calls import (
    AnyCall,
    AskOutcomes,
    AskToJoin,
    AskToPrepare,
    ConfirmEnds,
    LaneAway,
    MayJoin,
    Outcome,
    TellOutcomes,
    Told,
    Voted,
)
from semel.transactions.key import TransactionKey
from semel.transactions.transaction import Status
from semel.types import ProducerEpoch, ProducerId, Term, TopicPartition
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from support.handled import CONFIG, call
from support.seeded_loop import elapse, run
from support.several_lanes import (
    MAX_TIMESTAMP,
    READ_COMMITTED,
    SeveralLanes,
    Wire,
    committed_offset,
    create,
    fetched_code,
    fetched_from,
    group_in,
    offset_at,
    read,
    restart,
    stable_end,
    transactional_id_in,
)
from support.transactional_wire import TV1, TV2, Versions

Schedule = Callable[["World"], Coroutine[Any, Any, None]]

SETTLED_S = 5.0
STUCK_S = 120.0


class World:
    """Three lanes in one broker, the coordinator of the one producer in lane 0."""

    def __init__(self, machine: SeveralLanes, broker: Broker) -> None:
        self.machine = machine
        self.broker = broker
        self.wire = Wire(broker)
        self.anomalies: list[str] = []

    def check(self, holds: bool, anomaly: str) -> None:
        if not holds:
            self.anomalies.append(anomaly)

    async def producer(self, versions: Versions = TV2, timeout_ms: int = 60_000) -> HandledProducer:
        producer = HandledProducer(self.broker, transactional_id_in(self.broker, 0), versions)
        assert await producer.init(timeout_ms) == NONE
        return producer

    def key_of(self, lane: int) -> TransactionKey:
        """Of the one transaction that is open there."""
        (joined,) = self.broker.lanes.by_number[lane].view.all_joined()
        return joined.key

    async def vote(self, lane: int, key: TransactionKey, term: Term) -> bool | None:
        """None if it cannot be had now."""
        try:
            reply = await self.broker.peers.ask(lane, AskToPrepare(key, "tx", term))
        except LaneAway:
            return None
        assert isinstance(reply, Voted)
        return reply.yes

    def term(self, lane: int) -> Term:
        return self.broker.lanes.by_number[lane].view.term

    async def power_loss(self, lane: int) -> None:
        """Of all that was not synced there nothing is left."""
        await restart(self.machine, self.broker, lane, power_loss=True)

    async def unended(self, lane: int) -> bool:
        """Whether something is open there."""
        fetched = await fetched_from(self.broker, lane)
        return fetched.last_stable_offset < fetched.high_watermark

    async def durable(self, lane: int) -> None:
        led = self.broker.lanes.by_number[lane]
        await led.until(led.when_all_durable)

    async def values(self, lane: int) -> list[bytes]:
        return await read(self.broker, lane)


def anomalies_of(schedule: Schedule) -> list[str]:
    async def scenario() -> list[str]:
        # Nothing is synced that nobody waits for.
        config = replace(CONFIG, log_flush_interval_ms=60_000)
        machine = SeveralLanes(config)
        async with machine.broker() as broker:
            await create(broker)
            await create(broker, "u")
            world = World(machine, broker)
            try:
                async with asyncio.timeout(STUCK_S):
                    await schedule(world)
            except AssertionError as error:
                world.anomalies.append(f"assertion: {error!r:.300}")
            except TimeoutError:
                world.anomalies.append("it never ends")
        return world.anomalies

    return run(Random(1), scenario())


def is_a(*types: type[AnyCall], lane: int | None = None) -> Callable[[int, AnyCall], bool]:
    return lambda to, call: isinstance(call, types) and lane in (None, to)


async def added(producer: HandledProducer, *partitions: int, topic: str = "t") -> None:
    """As a TV1 client does, which asks again while the abort before is not known everywhere."""
    for _ in range(1_000):
        if await producer.add(topic, partitions) == {NONE}:
            return
        await elapse(0.01)
    raise AssertionError("the next transaction never opened")


async def code_of(writing: Coroutine[Any, Any, Any]) -> int:
    return int((await writing).error_code)


# 19: joining


async def what_was_not_added_does_not_join(world: World) -> None:
    producer = await world.producer(TV1)
    await added(producer, 1)
    code = await code_of(producer.produce("t", b"v", 2))
    world.check(code != NONE, "a partition was written that was not added")


async def a_lane_joins_in_one_term(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    # All that the lane has of it is lost, and so that it ever joined.
    await world.power_loss(1)
    await producer.produce("u", b"v", 1)
    code = await producer.end(commit=True)
    await elapse(SETTLED_S)
    world.check(code != NONE, "what lane 1 has lost was committed")


async def a_join_that_comes_back_after_the_end_is_void(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    hold = is_a(AskToJoin)
    world.wire.answers_held.append(hold)
    late = asyncio.ensure_future(code_of(producer.produce("t", b"late", 2)))
    await elapse(0.1)
    code = await producer.end(commit=True)
    assert code == NONE
    world.wire.answers_held.remove(hold)
    await elapse(SETTLED_S)
    world.check(await late != NONE, "a write joined a transaction that was committed before")
    world.check(await world.values(2) == [], "a late record was shown")
    world.check(not world.broker.lanes.by_number[2].view.has_joined, "it is open for ever")


async def a_join_is_written_before_it_is_answered(world: World) -> None:
    """A killed worker comes back in the same term, without what it had only in memory."""
    producer = await world.producer()
    lane = world.broker.lanes.by_number[0]
    asked = AskToJoin(
        transactional_id_in(world.broker, 0),
        ProducerId(producer.producer_id),
        ProducerEpoch(producer.epoch),
        2,
        (("t", 1),),
        1,
        world.term(1),
    )
    waits: list[Callable[[], None]] = []
    when_written = lane.when_all_written
    lane.when_all_written = waits.append  # type: ignore[method-assign, assignment]
    answering = asyncio.ensure_future(world.broker.peers.ask(0, asked))
    await elapse(1)
    world.check(not answering.done(), "a key was given before it was written")
    lane.when_all_written = when_written  # type: ignore[method-assign]
    for wait in waits:
        wait()
    assert isinstance(await answering, MayJoin)


async def a_key_is_given_under_an_epoch_that_is_durable(world: World) -> None:
    """Who leads instead of this one may have issued the same number: the write would join what
    nobody there knows."""
    producer = await world.producer()
    name = transactional_id_in(world.broker, 0)
    device = world.machine.devices[0]
    device.holds_syncs = True
    issuing = asyncio.ensure_future(HandledProducer(world.broker, name).init())
    await elapse(0.1)
    epoch = ProducerEpoch(producer.epoch + 1)
    asked = AskToJoin(
        name, ProducerId(producer.producer_id), epoch, 2, (("t", 1),), 1, world.term(1)
    )
    answering = asyncio.ensure_future(world.broker.peers.ask(0, asked))
    await elapse(1)
    world.check(not answering.done(), "a key was given under an epoch that nobody can know of")
    device.release()
    assert isinstance(await answering, MayJoin)
    assert await issuing == NONE


# 20: voting


async def joined_without_a_write(world: World, producer: HandledProducer) -> TransactionKey:
    asked = AskToJoin(
        transactional_id_in(world.broker, 0),
        ProducerId(producer.producer_id),
        ProducerEpoch(producer.epoch),
        2,
        (("t", 1),),
        1,
        world.term(1),
    )
    reply = await world.broker.peers.ask(0, asked)
    assert isinstance(reply, MayJoin)
    return reply.key


async def who_holds_nothing_remembers_its_vote(world: World) -> None:
    key = await joined_without_a_write(world, await world.producer())
    term = world.term(1)
    before = await world.vote(1, key, term)
    await world.power_loss(1)
    world.check((before, await world.vote(1, key, term)) == (True, True), "a vote has changed")


async def a_vote_is_durable_before_it_is_told(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    key, term = world.key_of(1), world.term(1)
    device = world.machine.devices[1]
    device.holds_syncs = True
    voting = asyncio.ensure_future(world.vote(1, key, term))
    await elapse(0.5)
    world.check(not voting.done(), "a vote was told that a power loss would take")
    device.release()
    world.check(await voting is True, "the vote is no")


async def in_a_new_term_the_vote_is_no(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    await world.power_loss(1)
    code = await producer.end(commit=True)
    world.check(code != NONE, "what was lost is committed")


async def reused_sequences_are_a_no(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"one", 1)).error_code == NONE
    producer.go_back()
    world.check((await producer.produce("t", b"two", 1)).error_code != NONE, "it was taken")
    code = await producer.end(commit=True)
    world.check(code != NONE, "nobody knows what was committed")


async def an_older_leader_does_not_vote(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    later = Term(world.term(1) + 1)
    vote = await world.vote(1, world.key_of(1), later)
    world.check(vote is None, "a leader votes for a term that it does not know")


# 21: what is prepared


async def writes_wait_for_the_outcome(world: World) -> None:
    producer = await world.producer(TV1)
    hold = is_a(TellOutcomes, AskOutcomes, lane=1)
    hold_asking = is_a(AskOutcomes)
    await added(producer, 1)
    assert (await producer.produce("t", b"first", 1)).error_code == NONE
    world.wire.held += [hold, hold_asking]
    assert await producer.end(commit=True) == NONE
    await added(producer, 1)
    second = asyncio.ensure_future(code_of(producer.produce("t", b"second", 1)))
    await elapse(1)
    world.check(not second.done(), "a write was decided while the one before was prepared")
    world.wire.held.clear()
    world.check(await second == NONE, "the write was refused")
    assert await producer.end(commit=False) == NONE
    await elapse(SETTLED_S)
    world.check(await world.values(1) == [b"first"], "an aborted record was committed")


# 22: what is remembered


async def a_commit_is_voted_for_again(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    key, term = world.key_of(1), world.term(1)
    assert await producer.end(commit=True) == NONE
    await elapse(1)
    # Not even if a later transaction is aborted here.
    assert (await producer.produce("t", b"w", 1)).error_code == NONE
    await world.durable(1)
    await world.power_loss(1)
    assert not world.broker.lanes.by_number[1].view.has_joined
    world.check(await world.vote(1, key, term) is True, "a lane forgot what it has committed")


async def what_its_coordinator_may_ask_for_is_not_forgotten(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    key, term = world.key_of(1), world.term(1)
    assert await producer.end(commit=True) == NONE
    await elapse(1)
    world.wire.lost.append(is_a(AskOutcomes))
    lane = world.broker.lanes.by_number[1]
    world.broker.across.joins(lane).forget(lane.view.now_ms() + 1)
    await elapse(1)
    world.check(lane.view.has_ended(key), "it forgot before it had asked")
    world.check(await world.vote(1, key, term) is True, "it forgot before it had asked")
    world.wire.lost.clear()
    world.broker.across.joins(lane).forget(lane.view.now_ms() + 1)
    await elapse(1)
    world.check(not lane.view.has_ended(key), "it never forgets")


# 23: a new term


async def a_new_term_aborts_what_is_open(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    await world.durable(1)
    world.wire.lost.append(is_a(AskOutcomes))
    await world.power_loss(1)
    lane = world.broker.lanes.by_number[1]
    world.check(not lane.view.has_joined, "readers wait for what can only be aborted")


async def a_new_term_keeps_what_is_prepared(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    key, term = world.key_of(1), world.term(1)
    assert await world.vote(1, key, term)
    await world.power_loss(1)
    world.check(await world.vote(1, key, term) is True, "a vote has changed")
    assert await producer.end(commit=True) == NONE
    world.check(await world.values(1) == [b"v"], "what was committed is not shown")


# 24: outcomes


async def an_outcome_ends_its_own_transaction_alone(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    key = world.key_of(1)
    other = TransactionKey(key.lane, key.term, key.producer_id, key.producer_epoch, key.number - 1)
    stale = Outcome(other, False, key.producer_epoch, key.term, world.term(1))
    await world.broker.peers.ask(1, TellOutcomes((stale,)))
    world.check(world.broker.lanes.by_number[1].view.has_joined, "it ended another")
    assert await producer.end(commit=True) == NONE
    world.check(await world.values(1) == [b"v"], "what was committed is not shown")


async def markers_of_others_end_nothing_that_has_a_key(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    assert (await producer.produce("t", b"v", 2)).error_code == NONE
    topics = [WritableTxnMarkerTopic("t", [1])]
    marker = WritableTxnMarker(producer.producer_id, producer.epoch, False, topics, 100)
    answer = await call(world.broker, "write_txn_markers", 1, WriteTxnMarkersRequest([marker]))
    (partition,) = answer.markers[0].topics[0].partitions
    world.check(partition.error_code == NONE, f"its coordinator has not ended it: {partition}")
    await elapse(SETTLED_S)
    left = [await world.unended(each) for each in (1, 2)]
    world.check(left == [False, False], "an outsider has ended a part, or nothing")
    code = await producer.end(commit=True)
    shown = [await world.values(each) for each in (1, 2)]
    expected = [[b"v"]] * 2 if code == NONE else [[]] * 2
    world.check(shown == expected, "a transaction is torn")


async def nothing_to_end_is_said_behind_a_barrier(world: World) -> None:
    """A leader that has been replaced would say so as well."""
    lane = world.broker.lanes.by_number[1]
    key = TransactionKey(0, Term(0), ProducerId(7), ProducerEpoch(0), 1)
    outcome = Outcome(key, False, ProducerEpoch(0), Term(0), Term(-1))
    waits: list[Callable[[], None]] = []
    lane.when_all_certain = lambda since, callback: waits.append(callback)  # type: ignore[method-assign]
    confirming = asyncio.ensure_future(world.broker.peers.ask(1, ConfirmEnds((outcome,))))
    await elapse(1)
    world.check(not confirming.done(), "it was confirmed without a barrier")
    for wait in waits:
        wait()
    await confirming


async def an_older_leader_confirms_nothing(world: World) -> None:
    key = TransactionKey(0, Term(0), ProducerId(7), ProducerEpoch(0), 1)
    later = Term(world.term(1) + 1)
    outcome = Outcome(key, False, ProducerEpoch(0), Term(0), later)
    try:
        await world.broker.peers.ask(1, ConfirmEnds((outcome,)))
    except LaneAway:
        return
    world.check(False, "a leader confirms what a later one has joined")


# 25: the decision


async def only_votes_decide_what_is_prepared(world: World) -> None:
    producer = await world.producer(timeout_ms=2_000)
    assert (await producer.produce("t", b"v", 0)).error_code == NONE
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    world.wire.lost.append(is_a(AskToPrepare))
    name = transactional_id_in(world.broker, 0)
    ending = asyncio.ensure_future(producer.end(commit=True))
    await elapse(0.5)
    other = HandledProducer(world.broker, name, TV2)
    initialising = asyncio.ensure_future(other.init())
    await elapse(5)
    world.check(not ending.done() and not initialising.done(), "it was answered undecided")
    await world.power_loss(0)
    await elapse(1)
    current = world.broker.lanes.by_number[0].view.transaction(name)  # type: ignore[arg-type]
    is_prepared = current is not None and current.status is Status.PREPARE_COMMIT
    world.check(is_prepared, "something else than votes has decided")
    world.wire.lost.clear()
    await elapse(SETTLED_S)
    shown = [await world.values(each) for each in (0, 1)]
    world.check(shown == [[b"v"]] * 2, f"a prepared transaction became {shown}")
    for each in (ending, initialising):
        each.cancel()


async def a_commit_waits_for_its_own_record(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    device = world.machine.devices[0]
    device.holds_syncs = True
    ending = asyncio.ensure_future(producer.end(commit=True))
    await elapse(0.5)
    world.check(not ending.done(), "it was committed before its record was durable")
    await world.power_loss(0)
    await elapse(SETTLED_S)
    ending.cancel()
    world.check(await world.values(1) == [], "what its coordinator has lost was committed")


# 26: telling


async def an_abort_is_durable_before_it_is_told(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    device = world.machine.devices[0]
    device.holds_syncs = True
    ending = asyncio.ensure_future(producer.end(commit=False))
    await elapse(5)
    told = [each for _, each in world.wire.said if isinstance(each, TellOutcomes)]
    lane = world.broker.lanes.by_number[1]
    world.check(not told and lane.view.has_joined, "an abort was told that could be lost")
    device.release()
    assert await ending == NONE


async def outcomes_are_kept_until_all_have_confirmed(world: World) -> None:
    producer = await world.producer()
    for lane in (1, 2):
        assert (await producer.produce("t", b"v", lane)).error_code == NONE
    world.wire.lost += [is_a(TellOutcomes, ConfirmEnds, lane=1), is_a(AskOutcomes)]
    assert await producer.end(commit=True) == NONE
    for _ in range(3):
        # Later ones leave nothing in the value of the transactional id.
        assert (await producer.produce("t", b"w", 0)).error_code == NONE
        assert await producer.end(commit=False) == NONE
    await elapse(1)
    await world.durable(0)
    await world.power_loss(0)
    world.wire.lost.clear()
    await elapse(SETTLED_S)
    shown = [await world.values(lane) for lane in (1, 2)]
    world.check(shown == [[b"v"]] * 2, f"a lane heard otherwise: {shown}")


async def what_a_coordinator_does_not_know_was_aborted(world: World) -> None:
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    await world.durable(1)
    # The coordinator loses that anything has joined.
    await world.power_loss(0)
    await elapse(SETTLED_S)
    world.check(not world.broker.lanes.by_number[1].view.has_joined, "it is open for ever")
    key = TransactionKey(0, Term(world.term(0) + 1), ProducerId(7), ProducerEpoch(0), 1)
    try:
        reply = await world.broker.peers.ask(0, AskOutcomes((key,)))
    except LaneAway:
        return
    assert isinstance(reply, Told)
    world.check(False, "an older coordinator tells of a term that it does not know")


async def what_was_aborted_stays_so_whatever_its_producer_commits_next(world: World) -> None:
    """A lane whose join its coordinator has lost asks late, when a transaction that needed no key
    was committed behind the one that it asks about."""
    producer = await world.producer()
    assert (await producer.produce("t", b"known", 1)).error_code == NONE
    await world.durable(0)
    assert (await producer.produce("t", b"lost", 2)).error_code == NONE
    world.machine.devices[0].holds_syncs = True
    ending = asyncio.ensure_future(producer.end(commit=True))
    await elapse(0.5)
    asks = is_a(AskOutcomes)
    world.wire.held.append(asks)
    await world.power_loss(0)
    await elapse(SETTLED_S)
    world.check(await ending != NONE, "what its coordinator has lost is committed")
    next_one = await world.producer()
    assert (await next_one.produce("t", b"next", 0)).error_code == NONE
    assert await next_one.end(commit=True) == NONE
    world.wire.held.remove(asks)
    await elapse(SETTLED_S)
    world.check(not world.broker.lanes.by_number[2].view.has_joined, "it is open for ever")
    world.check(await world.values(2) == [], "a part of what was aborted is committed")


# 27: a no


async def _voted_down(world: World, versions: Versions) -> None:
    producer = await world.producer(versions)
    if versions is TV1:
        await added(producer, 1)
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    await world.power_loss(1)
    codes = [await producer.end(commit=True) for _ in range(2)]
    world.check(codes[0] == codes[1] != NONE, f"a repeated commit hears {codes}")
    if versions is TV1:
        code = (await producer.add("t", [2])).pop()
        world.check(code != NONE, "the epoch of a lost transaction is used again")
    else:
        code = await producer.end(commit=False)
        world.check(code == NONE, f"its abort hears {code}")
        assert (await producer.produce("t", b"w", 1)).error_code == NONE


async def after_a_no_a_repeated_tv1_commit_hears_the_same(world: World) -> None:
    await _voted_down(world, TV1)


async def after_a_no_a_repeated_tv2_commit_hears_the_same(world: World) -> None:
    await _voted_down(world, TV2)


# 28: what waits when a TV1 client goes on in its epoch


async def a_late_join_does_not_pass_for_the_next_transaction(world: World) -> None:
    producer = await world.producer(TV1)
    hold = is_a(AskToJoin)
    await added(producer, 1)
    world.wire.held.append(hold)
    late = asyncio.ensure_future(code_of(producer.produce("t", b"aborted", 1)))
    await elapse(0.1)
    assert await producer.end(commit=False) == NONE
    await added(producer, 1)
    world.wire.held.remove(hold)
    world.check(await late != NONE, "a write of the aborted transaction was taken")
    producer.go_back()
    assert (await producer.produce("t", b"second", 1)).error_code == NONE
    assert await producer.end(commit=True) == NONE
    world.check(await world.values(1) == [b"second"], "an aborted record was committed")


async def a_held_write_does_not_pass_for_the_next_transaction(world: World) -> None:
    """Lane 1 hears of the abort of the second transaction before it hears of the first's commit."""
    producer = await world.producer(TV1)
    await added(producer, 1)
    assert (await producer.produce("t", b"first", 1)).error_code == NONE
    lost = is_a(TellOutcomes, ConfirmEnds, AskOutcomes)
    world.wire.lost.append(lost)
    assert await producer.end(commit=True) == NONE
    await added(producer, 1)
    held = asyncio.ensure_future(code_of(producer.produce("t", b"aborted", 1)))
    await elapse(0.3)
    assert await producer.end(commit=False) == NONE
    await world.durable(0)
    coordinator = world.broker.lanes.by_number[0]
    aborts = tuple(each for _, each in coordinator.view.unconfirmed() if not each.commit)
    world.wire.lost.clear()
    await world.broker.peers.ask(1, TellOutcomes(aborts))
    world.wire.lost.append(lost)
    world.broker.across.commits(coordinator).confirmed(1, aborts)
    await added(producer, 1)
    world.wire.lost.clear()
    await elapse(SETTLED_S)
    world.check(held.done() and await held != NONE, "a write of the aborted one was taken")
    await producer.end(commit=True)
    await elapse(SETTLED_S)
    world.check(await world.values(1) == [b"first"], "an aborted record was committed")


async def the_next_opens_when_the_abort_is_heard_everywhere(world: World) -> None:
    producer = await world.producer(TV1)
    # Added, and never written.
    await added(producer, 1)
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    await added(producer, 2)
    world.wire.lost.append(is_a(TellOutcomes, lane=2))
    assert await producer.end(commit=False) == NONE
    await elapse(1)
    world.check(await producer.add("t", [1]) != {NONE}, "lane 2 has not heard of the abort")
    world.wire.lost.clear()
    await elapse(1)
    world.check(await producer.add("t", [1]) == {NONE}, "it never opens")


# 29: InitProducerId


async def a_new_producer_waits_until_all_have_ended(world: World) -> None:
    producer = await world.producer()
    group = group_in(world.broker, 1)
    assert await producer.commit_offsets(group, {("t", 0): 5}) == {NONE}
    world.wire.lost += [is_a(TellOutcomes), is_a(AskOutcomes)]
    assert await producer.end(commit=True) == NONE
    next_one = HandledProducer(world.broker, transactional_id_in(world.broker, 0), TV2)
    initialising = asyncio.ensure_future(next_one.init())
    await elapse(1)
    if initialising.done():
        found = await committed_offset(world.broker, group, TopicPartition("t", 0), stable=False)
        world.check(found == (NONE, 5), f"the next one copies from {found} again")
    world.wire.lost.clear()
    assert await initialising == NONE


# 30: readers


async def who_hears_of_a_commit_can_read_it(world: World) -> None:
    producer = await world.producer()
    for lane in (0, 1):
        assert (await producer.produce("t", b"v", lane)).error_code == NONE
    hold = is_a(TellOutcomes)
    world.wire.held.append(hold)
    ending = asyncio.ensure_future(producer.end(commit=True))
    device = world.machine.devices[1]
    while not world.broker.lanes.by_number[1].view.all_joined()[0].is_prepared:
        await elapse(0.001)
    await world.durable(1)
    world.check(await world.values(1) == [], "what is only prepared is shown")
    device.holds_syncs = True
    world.wire.held.clear()
    assert await ending == NONE
    world.check(await world.values(1) == [b"v"], "what was committed is not shown in lane 1")
    world.check(await world.values(0) == [b"v"], "what was committed is not shown in lane 0")
    device.release()


async def _shown_before_a_power_loss(world: World) -> int:
    """Lane 1 has shown a committed record, and has lost that it was committed: nobody tells it for
    now. Gives the last stable offset before."""
    producer = await world.producer()
    assert (await producer.produce("t", b"v", 1)).error_code == NONE
    device = world.machine.devices[1]
    hold = is_a(TellOutcomes)
    world.wire.held.append(hold)
    ending = asyncio.ensure_future(producer.end(commit=True))
    while not world.broker.lanes.by_number[1].view.all_joined()[0].is_prepared:
        await elapse(0.001)
    await world.durable(1)
    world.wire.held.clear()
    device.holds_syncs = True
    assert await ending == NONE
    before = (await fetched_from(world.broker, 1)).last_stable_offset
    world.wire.lost += [is_a(AskOutcomes), is_a(TellOutcomes), is_a(ConfirmEnds)]
    await world.power_loss(1)
    return before


async def the_stable_end_never_falls(world: World) -> None:
    before = await _shown_before_a_power_loss(world)
    code, after = await stable_end(world.broker, 1)
    is_told = code == NONE
    world.check(not is_told or after >= before, f"the stable end fell from {before} to {after}")
    world.check(is_told or code == OffsetNotAvailable.code, f"its reader hears {code}")
    world.wire.lost.clear()
    await elapse(SETTLED_S)
    code, after = await stable_end(world.broker, 1)
    world.check((code, after >= before) == (NONE, True), f"it ends at {code, after}")


async def what_was_shown_is_found_by_its_time(world: World) -> None:
    await _shown_before_a_power_loss(world)
    for timestamp_ms in (TIMESTAMP_MS, MAX_TIMESTAMP):
        code, offset = await offset_at(world.broker, 1, timestamp_ms)
        is_told = code == NONE
        world.check(not is_told or offset >= 0, f"at {timestamp_ms} nothing is found")
        world.check(is_told or code == OffsetNotAvailable.code, f"its reader hears {code}")
    world.wire.lost.clear()
    await elapse(SETTLED_S)
    for timestamp_ms in (TIMESTAMP_MS, MAX_TIMESTAMP):
        code, offset = await offset_at(world.broker, 1, timestamp_ms)
        is_found = code == NONE and offset >= 0
        world.check(is_found, f"at {timestamp_ms} {code, offset} is found")


async def a_fetch_tells_no_stable_end_before_it_is_known(world: World) -> None:
    before = await _shown_before_a_power_loss(world)
    for isolation_level, expected in ((READ_COMMITTED, NotLeaderOrFollower.code), (0, NONE)):
        code, end = await fetched_code(world.broker, 1, isolation_level)
        world.check(code == expected, f"a fetch hears {code}")
        world.check(end in (-1, before), f"the stable end fell from {before} to {end}")
    waiting = asyncio.ensure_future(read(world.broker, 1, max_wait_ms=500))
    await elapse(0.1)
    world.check(not waiting.done(), "a fetch that could wait was answered")
    world.wire.lost.clear()
    world.check(await waiting == [b"v"], "what was committed is not shown")


RULES: list[tuple[int, Schedule]] = [
    (19, what_was_not_added_does_not_join),
    (19, a_lane_joins_in_one_term),
    (19, a_join_that_comes_back_after_the_end_is_void),
    (19, a_join_is_written_before_it_is_answered),
    (19, a_key_is_given_under_an_epoch_that_is_durable),
    (20, who_holds_nothing_remembers_its_vote),
    (20, a_vote_is_durable_before_it_is_told),
    (20, in_a_new_term_the_vote_is_no),
    (20, reused_sequences_are_a_no),
    (20, an_older_leader_does_not_vote),
    (21, writes_wait_for_the_outcome),
    (22, a_commit_is_voted_for_again),
    (22, what_its_coordinator_may_ask_for_is_not_forgotten),
    (23, a_new_term_aborts_what_is_open),
    (23, a_new_term_keeps_what_is_prepared),
    (24, an_outcome_ends_its_own_transaction_alone),
    (24, markers_of_others_end_nothing_that_has_a_key),
    (24, nothing_to_end_is_said_behind_a_barrier),
    (24, an_older_leader_confirms_nothing),
    (25, only_votes_decide_what_is_prepared),
    (25, a_commit_waits_for_its_own_record),
    (26, an_abort_is_durable_before_it_is_told),
    (26, outcomes_are_kept_until_all_have_confirmed),
    (26, what_a_coordinator_does_not_know_was_aborted),
    (26, what_was_aborted_stays_so_whatever_its_producer_commits_next),
    (27, after_a_no_a_repeated_tv1_commit_hears_the_same),
    (27, after_a_no_a_repeated_tv2_commit_hears_the_same),
    (28, a_late_join_does_not_pass_for_the_next_transaction),
    (28, a_held_write_does_not_pass_for_the_next_transaction),
    (28, the_next_opens_when_the_abort_is_heard_everywhere),
    (29, a_new_producer_waits_until_all_have_ended),
    (30, who_hears_of_a_commit_can_read_it),
    (30, the_stable_end_never_falls),
    (30, what_was_shown_is_found_by_its_time),
    (30, a_fetch_tells_no_stable_end_before_it_is_known),
]

"""EndTxn in both dialects, each answer of the table, and the timer that ends what clients leave."""

import pytest
from msgspec.structs import replace

from semel.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    ProducerFenced,
    RequestError,
)
from semel.transactions.commands import Complete, End, InitProducer, Markers
from semel.transactions.coordinator import decide
from semel.transactions.dialect import Dialect
from semel.transactions.transaction import Status
from semel.types import EPOCH_MAX, ProducerId, Term, TopicPartition
from support.deciding import decide_whole
from support.transaction_world import (
    FIRST_PRODUCER_ID,
    ID,
    P0,
    P1,
    P2,
    TIMEOUT_MS,
    TV1,
    TV2,
    Producer,
    World,
    epoch,
)

SETTLED = (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


def world_in(status: Status, dialect: Dialect) -> tuple[World, Producer]:
    world = World()
    producer = world.init()
    if status is not Status.EMPTY:
        committed = status is Status.COMPLETE_COMMIT
        producer = world.transact(producer, commit=committed, dialect=dialect)
    assert world.value.status is status
    return world, producer


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_is_one_decision_prepare_markers_complete(commit: bool) -> None:
    world = World()
    producer = world.init()
    world.write(producer, P2, P0)
    world.commit_offsets(producer, 7)
    decision = world.end(producer, commit=commit)
    prepared, completed = decision.values
    if commit:
        expected = (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)
    else:
        expected = (Status.PREPARE_ABORT, Status.COMPLETE_ABORT)
    assert (prepared.status, completed.status) == expected
    offsets = TopicPartition("__consumer_offsets", 7)
    assert prepared.partitions == {P0, P2, offsets}
    assert not completed.partitions
    assert decision.markers == Markers(producer[0], epoch(1), commit, (offsets, P0, P2), world.term)


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_prepared_first_and_completed_when_all_have_been_told(commit: bool) -> None:
    """As two commands, for participants that are not all at hand."""
    world = World()
    producer = world.init()
    world.write(producer, P0, P2)
    prepared = decide(world.value, End(*producer, commit, Dialect.TV2), world.context)
    (value,) = prepared.values
    assert value.is_prepared
    assert value.partitions == {P0, P2}
    assert prepared.markers == Markers(producer[0], epoch(1), commit, (P0, P2), world.term)
    completed = decide(value, Complete(), world.context)
    assert completed.markers is None
    assert (*prepared.values, *completed.values) == world.end(producer, commit=commit).values


def test_a_new_incarnation_goes_on_when_what_it_had_to_end_is_completed() -> None:
    world = World()
    world.write(world.init(), P0)
    command = InitProducer(ID, 60_000)
    prepared = decide(world.value, command, world.context)
    assert prepared.then is not None
    completed = decide(prepared.values[-1], Complete(), world.context)
    emptied = decide(completed.values[-1], prepared.then, world.context)
    whole = decide_whole(world.value, command, world.context)
    assert (*prepared.values, *completed.values, *emptied.values) == whole.values
    assert (whole.producer_id, whole.producer_epoch) == (
        emptied.producer_id,
        emptied.producer_epoch,
    )
    assert whole.then is None


def test_tv1_keeps_its_epoch_and_tv2_gets_the_next_one() -> None:
    world = World()
    producer = world.init()
    assert world.transact(producer, dialect=TV1) == producer
    assert world.frames[-1].markers == Markers(*producer, True, (P0,), world.term)
    assert world.transact(producer, dialect=TV2) == (producer[0], 1)


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_transaction_may_begin_at_once(commit: bool) -> None:
    world = World()
    producer = world.init()
    for dialect in (TV1, TV2, TV2, TV1):
        producer = world.transact(producer, commit=commit, dialect=dialect)


@pytest.mark.parametrize("commit", [True, False])
def test_a_tv2_retry_carries_the_epoch_before_and_is_answered_as_its_original(commit: bool) -> None:
    world = World()
    before = world.init()
    after = world.transact(before, commit=commit)
    frame_count = len(world.frames)
    for _ in range(2):
        retried = world.end(before, commit=commit)
        assert (retried.producer_id, retried.producer_epoch) == after
    assert len(world.frames) == frame_count


@pytest.mark.parametrize("status", SETTLED)
def test_a_tv2_abort_with_nothing_open_gives_the_next_epoch(status: Status) -> None:
    """The client cannot know whether its write has arrived, so it aborts."""
    world, producer = world_in(status, TV2)
    decision = world.end(producer, commit=False)
    assert decision.producer_epoch == producer[1] + 1
    assert world.value.status is Status.COMPLETE_ABORT
    assert decision.markers is None
    retried = world.end(producer, commit=False)
    assert retried.producer_epoch == decision.producer_epoch
    assert not retried.values


@pytest.mark.parametrize("status", SETTLED)
def test_a_tv2_commit_with_nothing_open_is_refused(status: Status) -> None:
    world, producer = world_in(status, TV2)
    assert world.refusal(End(*producer, True, TV2)) is InvalidTransactionState


def test_a_tv2_abort_under_the_epoch_before_cannot_undo_a_commit() -> None:
    world = World()
    before = world.init()
    world.transact(before)
    assert world.refusal(End(*before, False, TV2)) is InvalidTransactionState


@pytest.mark.parametrize("commit", [True, False])
def test_a_tv2_retry_that_comes_when_the_next_has_begun_is_fenced(commit: bool) -> None:
    world = World()
    before = world.init()
    after = world.transact(before, commit=commit)
    world.write(after, P0)
    assert world.refusal(End(*before, commit, TV2)) is ProducerFenced


@pytest.mark.parametrize("status", SETTLED)
@pytest.mark.parametrize("commit", [True, False])
def test_a_tv1_end_is_repeated_with_success_and_nothing_else_is(
    status: Status, commit: bool
) -> None:
    world, producer = world_in(status, TV1)
    same = Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT
    if status is same:
        decision = world.end(producer, commit=commit, dialect=TV1)
        assert not decision.values
        assert (decision.producer_id, decision.producer_epoch) == producer
    else:
        assert world.refusal(End(*producer, commit, TV1)) is InvalidTransactionState


@pytest.mark.parametrize(
    ("status", "commit", "at_current", "before_current"),
    [
        (Status.PREPARE_COMMIT, True, ConcurrentTransactions, ConcurrentTransactions),
        (Status.PREPARE_COMMIT, False, InvalidTransactionState, InvalidTransactionState),
        (Status.PREPARE_ABORT, True, InvalidTransactionState, ProducerFenced),
        (Status.PREPARE_ABORT, False, ConcurrentTransactions, ConcurrentTransactions),
    ],
)
def test_a_prepared_transaction_is_waited_for(
    status: Status,
    commit: bool,
    at_current: type[RequestError],
    before_current: type[RequestError],
) -> None:
    world = World()
    before = world.init()
    now = world.init(before)
    world.write(now, P0)
    world.store.apply(replace(world.value, status=status), world.now_ms)
    assert world.refusal(End(*now, commit, TV1)) is at_current
    assert world.refusal(End(*now, commit, TV2)) is ProducerFenced
    assert world.refusal(End(*before, commit, TV2)) is before_current


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("dialect", [TV1, TV2])
def test_what_was_prepared_in_an_earlier_term_may_have_been_told(
    commit: bool, dialect: Dialect
) -> None:
    """Over lanes it is committed before its completion is durable, so that its client may have
    begun the next one, which is lost. It asks again until the votes are there."""
    world = World()
    now = world.init()
    world.write(now, P0)
    world.store.apply(replace(world.value, status=Status.PREPARE_COMMIT), world.now_ms)
    world.term = Term(world.term + 1)
    assert world.refusal(End(*now, commit, dialect)) is ConcurrentTransactions


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("distance", [-2, 1, 2])
def test_any_other_epoch_is_fenced(commit: bool, distance: int) -> None:
    world = World()
    producer = world.init()
    for _ in range(3):
        producer = world.transact(producer, commit=commit)
    other = (producer[0], epoch(producer[1] + distance))
    for dialect in (TV1, TV2):
        assert world.refusal(End(*other, commit, dialect)) is ProducerFenced


def test_another_producer_id_is_not_mapped() -> None:
    world = World()
    producer_id, producer_epoch = world.init()
    for dialect in (TV1, TV2):
        command = End(ProducerId(producer_id + 1), producer_epoch, True, dialect)
        assert world.refusal(command) is InvalidProducerIdMapping


def test_the_end_of_the_last_epoch_changes_the_producer_id_and_its_retry_is_known() -> None:
    world = World()
    producer_id, _ = world.init()
    last = (producer_id, epoch(EPOCH_MAX - 1))
    world.store.apply(replace(world.value, producer_epoch=last[1]), world.now_ms)
    world.write(last, P0)
    decision = world.end(last, commit=True)
    prepared, completed = decision.values
    assert (prepared.producer_id, prepared.producer_epoch) == (producer_id, EPOCH_MAX)
    assert prepared.next_producer_id == FIRST_PRODUCER_ID + 1
    assert (completed.producer_id, completed.producer_epoch) == (FIRST_PRODUCER_ID + 1, 0)
    assert decision.taken_producer_id == FIRST_PRODUCER_ID + 1
    retried = world.end(last, commit=True)
    assert (retried.producer_id, retried.producer_epoch) == (FIRST_PRODUCER_ID + 1, 0)
    assert world.refusal(End(*last, False, TV2)) is InvalidTransactionState
    world.transact((ProducerId(FIRST_PRODUCER_ID + 1), epoch(0)))
    assert world.refusal(End(*last, True, TV2)) is InvalidProducerIdMapping


# The timer


def test_the_timer_starts_with_the_first_partition_and_not_with_the_producer() -> None:
    world = World()
    producer = world.init()
    world.now_ms += 10 * TIMEOUT_MS
    assert world.store.next_deadline_ms() is None
    world.write(producer, P0)
    began_ms, shown_ms = world.now_ms, world.wall_ms
    world.now_ms += TIMEOUT_MS // 2
    world.write(producer, P1)
    assert world.value.started_at_ms == shown_ms
    assert world.store.next_deadline_ms() == began_ms + TIMEOUT_MS


def test_a_timer_does_not_ring_early_nor_for_a_transaction_that_has_ended() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    assert world.pass_time(TIMEOUT_MS - 1) == []
    world.end(producer, commit=True)
    assert world.pass_time(TIMEOUT_MS) == []


@pytest.mark.parametrize("dialect", [TV1, TV2])
def test_a_timeout_aborts_and_fences_by_the_next_epoch(dialect: Dialect) -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0, dialect=dialect)
    (decision,) = world.pass_time(TIMEOUT_MS)
    assert decision.markers == Markers(producer[0], epoch(1), False, (P0,), world.term)
    assert world.value.status is Status.COMPLETE_ABORT
    assert world.value.producer_epoch == 1


@pytest.mark.parametrize("dialect", [TV1, TV2])
def test_a_commit_that_races_the_timeout_is_fenced(dialect: Dialect) -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0, dialect=dialect)
    world.pass_time(TIMEOUT_MS)
    assert world.refusal(End(*producer, True, dialect)) is ProducerFenced


def test_who_was_timed_out_may_abort_under_tv2_and_go_on_with_the_new_epoch() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    world.pass_time(TIMEOUT_MS)
    assert world.end(producer, commit=False).producer_epoch == 1
    world.transact((producer[0], epoch(1)))


def test_who_was_timed_out_gets_the_new_epoch_by_naming_the_old_one() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0, dialect=TV1)
    world.pass_time(TIMEOUT_MS)
    recovered = world.init(producer)
    assert recovered == (producer[0], 1)
    world.transact(recovered, dialect=TV1)


def test_who_was_timed_out_and_replaced_stays_fenced() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    world.pass_time(TIMEOUT_MS)
    world.init()
    assert world.refusal(InitProducer(ID, TIMEOUT_MS, *producer)) is ProducerFenced
    assert world.refusal(End(*producer, False, TV2)) is ProducerFenced

"""A new term: writes that were acknowledged may be lost, so no old epoch may commit them."""

import pytest
from msgspec.structs import replace

from semel.errors import ProducerFenced, RequestError, TransactionAbortable
from semel.transactions.commands import (
    AddOffsets,
    AddPartitions,
    Command,
    End,
    Markers,
    RaiseTerm,
    WriteOffsets,
    WriteRecords,
)
from semel.transactions.dialect import Dialect
from semel.transactions.records import decode, encode
from semel.transactions.transaction import NO_TERM, Status
from semel.types import Term
from support.transaction_world import (
    P0,
    P1,
    TIMEOUT_MS,
    TV1,
    TV2,
    Producer,
    World,
    epoch,
)


def writes(producer: Producer) -> list[Command]:
    return [
        AddPartitions(*producer, frozenset({P1})),
        AddOffsets(*producer, 3),
        WriteRecords(*producer, frozenset({P1}), TV1),
        WriteRecords(*producer, frozenset({P1}), TV2),
        WriteOffsets(*producer, 3, TV1),
        WriteOffsets(*producer, 3, TV2),
    ]


def spent_in(status: Status, dialect: Dialect) -> tuple[World, Producer]:
    """A producer whose epoch is of an older term, left in this status by the last one."""
    world = World()
    producer = world.init()
    if status is Status.COMPLETE_COMMIT:
        producer = world.transact(producer, dialect=dialect)
    elif status is Status.COMPLETE_ABORT:
        world.write(producer, P0, dialect=dialect)
    world.raise_term()
    assert world.value.status is status
    return world, producer


SETTLED = (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


def test_a_rise_of_the_term_aborts_what_is_open_and_leaves_the_epoch() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0, P1)
    world.raise_term()
    frame = world.frames[-1]
    assert [value.status for value in frame.values] == [
        Status.PREPARE_ABORT,
        Status.COMPLETE_ABORT,
    ]
    assert frame.markers == Markers(*producer, False, (P0, P1), world.term)
    assert world.value.producer_epoch == producer[1]


def test_a_rise_of_the_term_completes_what_was_decided() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    world.store.apply(replace(world.value, status=Status.PREPARE_COMMIT), world.now_ms)
    world.raise_term()
    assert world.value.status is Status.COMPLETE_COMMIT
    assert world.frames[-1].markers == Markers(*producer, True, (P0,), world.term)


@pytest.mark.parametrize("status", SETTLED)
def test_a_rise_of_the_term_writes_nothing_where_nothing_is_open(status: Status) -> None:
    world, _ = spent_in(status, TV2)
    assert not world.take(RaiseTerm()).values


@pytest.mark.parametrize("dialect", [TV1, TV2])
@pytest.mark.parametrize("status", SETTLED)
def test_every_write_under_a_spent_epoch_is_refused(status: Status, dialect: Dialect) -> None:
    """Also with nothing open: the frame that opened the transaction may itself be lost."""
    world, producer = spent_in(status, dialect)
    for command in writes(producer):
        assert world.refusal(command) is TransactionAbortable


@pytest.mark.parametrize("status", SETTLED)
def test_who_was_told_and_comes_back_under_a_spent_epoch_is_fenced(status: Status) -> None:
    world, producer = spent_in(status, TV1)
    joins = (AddPartitions(*producer, frozenset({P1})), AddOffsets(*producer, 3))
    for command in joins:
        assert world.refusal(command._replace(was_told=True)) is ProducerFenced
    after = world.init(producer)
    world.take(AddPartitions(*after, frozenset({P1}), was_told=True))
    assert world.value.status is Status.ONGOING


@pytest.mark.parametrize("status", SETTLED)
def test_a_tv2_commit_under_a_spent_epoch_is_abortable(status: Status) -> None:
    world, producer = spent_in(status, TV2)
    assert world.refusal(End(*producer, True, TV2)) is TransactionAbortable


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (Status.EMPTY, TransactionAbortable),
        (Status.COMPLETE_ABORT, TransactionAbortable),
        # It may repeat the commit that is the last outcome, or be of a transaction that is lost.
        (Status.COMPLETE_COMMIT, ProducerFenced),
    ],
)
def test_a_tv1_commit_under_a_spent_epoch_is_refused_by_what_can_be_known(
    status: Status, answer: type[RequestError]
) -> None:
    world, producer = spent_in(status, TV1)
    assert world.refusal(End(*producer, True, TV1)) is answer


@pytest.mark.parametrize("status", SETTLED)
def test_a_tv2_abort_under_a_spent_epoch_issues_the_next_one(status: Status) -> None:
    world, producer = spent_in(status, TV2)
    decision = world.end(producer, commit=False)
    assert decision.producer_epoch == producer[1] + 1
    after = (decision.producer_id, decision.producer_epoch)
    assert world.value.epoch_term == world.term
    world.transact(after)


@pytest.mark.parametrize("status", SETTLED)
def test_a_tv1_abort_under_a_spent_epoch_succeeds_and_changes_nothing(status: Status) -> None:
    world, producer = spent_in(status, TV1)
    decision = world.end(producer, commit=False, dialect=TV1)
    assert not decision.values
    for command in writes(producer):
        assert world.refusal(command) is TransactionAbortable


@pytest.mark.parametrize("dialect", [TV1, TV2])
@pytest.mark.parametrize("status", SETTLED)
@pytest.mark.parametrize("named", [True, False])
def test_init_producer_id_ends_the_refusals(status: Status, dialect: Dialect, named: bool) -> None:
    world, producer = spent_in(status, dialect)
    after = world.init(producer) if named else world.init()
    assert after == (producer[0], producer[1] + 1)
    world.transact(after, dialect=dialect)


def test_a_tv2_commit_that_repeats_the_last_outcome_succeeds_in_a_newer_term() -> None:
    world = World()
    before = world.init()
    after = world.transact(before)
    world.raise_term()
    retried = world.end(before, commit=True)
    assert (retried.producer_id, retried.producer_epoch) == after
    assert not retried.values


def test_a_tv2_commit_whose_transaction_was_aborted_by_the_rise_is_not_taken_for_a_retry() -> None:
    world = World()
    before = world.init()
    now = world.transact(before)
    world.write(now, P0)
    world.raise_term()
    assert world.refusal(End(*now, True, TV2)) is TransactionAbortable
    assert world.refusal(End(*before, True, TV2)) is ProducerFenced


def test_no_retry_refreshes_the_term_of_an_old_epoch() -> None:
    world = World()
    first = world.init()
    second = world.init(first)
    third = world.transact(second)
    world.raise_term()
    world.end(second, commit=True)
    assert world.value.epoch_term == Term(0)
    for command in writes(third):
        assert world.refusal(command) is TransactionAbortable


def test_a_retried_init_hands_out_a_spent_epoch_that_stays_spent() -> None:
    world = World()
    first = world.init()
    second = world.init(first)
    world.raise_term()
    assert world.init(first) == second
    assert world.refusal(End(*second, True, TV1)) is TransactionAbortable
    third = world.init(second)
    world.transact(third, dialect=TV1)


def test_the_bump_of_a_timeout_is_of_the_term_that_made_it() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    world.pass_time(TIMEOUT_MS)
    assert world.value.epoch_term == Term(0)
    world.transact((producer[0], epoch(1)))


def test_an_end_of_tv1_does_not_issue_an_epoch_and_so_not_a_term() -> None:
    world = World()
    producer = world.init()
    world.transact(producer, dialect=TV1)
    assert world.value.epoch_term == Term(0)
    world.raise_term()
    world.end(producer, commit=False, dialect=TV1)
    assert world.value.epoch_term == Term(0)


def test_the_term_of_an_epoch_survives_the_log() -> None:
    world = World()
    world.raise_term()
    world.raise_term()
    world.init()
    read = decode(*encode(world.value))
    assert read is not None
    assert read.epoch_term == Term(2)


def test_a_value_that_does_not_know_its_term_is_spent() -> None:
    world = World()
    producer = world.init()
    world.store.apply(replace(world.value, epoch_term=NO_TERM), world.now_ms)
    assert world.refusal(WriteRecords(*producer, frozenset({P0}), TV2)) is TransactionAbortable

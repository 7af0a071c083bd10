"""Partitions and offsets joining a transaction, what may be written to it, and what dooms it."""

import pytest
from msgspec.structs import replace

from semel.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    ProducerFenced,
    RequestError,
    TransactionAbortable,
    TransactionCoordinatorFenced,
)
from semel.transactions.commands import (
    AddOffsets,
    AddPartitions,
    Command,
    Doom,
    End,
    ForgetTopic,
    WriteOffsets,
    WriteRecords,
)
from semel.transactions.dialect import Dialect
from semel.transactions.ending import check_coordinator
from semel.transactions.joining import check_plain
from semel.transactions.transaction import Status
from semel.types import ProducerId, Term, TopicPartition
from support.transaction_world import P0, P1, P2, TIMEOUT_MS, TV1, TV2, World, epoch, takes_part


def test_tv1_partitions_are_added_before_they_are_written() -> None:
    world = World()
    producer = world.init()
    write = WriteRecords(*producer, frozenset({P0}), TV1)
    assert world.refusal(write) is InvalidTransactionState
    world.take(AddPartitions(*producer, frozenset({P0})))
    assert world.value.status is Status.ONGOING
    assert not world.take(write).values
    other = WriteRecords(*producer, frozenset({P0, P1}), TV1)
    assert world.refusal(other) is InvalidTransactionState


def test_tv1_partitions_of_the_last_transaction_are_not_part_of_the_next() -> None:
    world = World()
    producer = world.init()
    world.transact(producer, dialect=TV1)
    write = WriteRecords(*producer, frozenset({P0}), TV1)
    assert world.refusal(write) is InvalidTransactionState
    world.take(AddPartitions(*producer, frozenset({P1})))
    assert world.refusal(write) is InvalidTransactionState


def test_tv2_partitions_join_by_the_first_write_and_only_by_it() -> None:
    world = World()
    producer = world.init()
    (value,) = world.write(producer, P0, P1).values
    assert (value.status, value.partitions) == (Status.ONGOING, frozenset({P0, P1}))
    assert not world.write(producer, P1).values
    (value,) = world.write(producer, P2).values
    assert value.partitions == {P0, P1, P2}


def test_tv1_offsets_need_to_be_added_and_tv2_offsets_join() -> None:
    world = World()
    producer = world.init()
    assert world.refusal(WriteOffsets(*producer, 9, TV1)) is InvalidTransactionState
    world.take(AddOffsets(*producer, 9))
    assert not world.take(WriteOffsets(*producer, 9, TV1)).values
    assert world.refusal(WriteOffsets(*producer, 8, TV1)) is InvalidTransactionState
    world.take(WriteOffsets(*producer, 8, TV2))
    assert world.value.partitions == {
        TopicPartition("__consumer_offsets", 8),
        TopicPartition("__consumer_offsets", 9),
    }


def test_adding_what_is_there_writes_nothing() -> None:
    world = World()
    producer = world.init()
    world.take(AddPartitions(*producer, frozenset({P0, P1})))
    assert not world.take(AddPartitions(*producer, frozenset({P1}))).values
    assert not world.take(AddPartitions(*producer, frozenset())).values


def test_a_stale_epoch_is_said_before_anything_else_about_the_transaction() -> None:
    """Here the partition was not added, the epoch is spent and the transaction is over."""
    world = World()
    stale = world.init()
    world.init()
    world.raise_term()
    for dialect in (TV1, TV2):
        with pytest.raises(ProducerFenced):
            takes_part(world.value, *stale, P0, dialect, world.term)


def test_an_epoch_from_the_future_is_refused_as_well() -> None:
    world = World()
    producer_id, producer_epoch = world.init()
    with pytest.raises(ProducerFenced):
        takes_part(world.value, producer_id, epoch(producer_epoch + 1), P0, TV2, world.term)


def test_a_producer_id_of_no_one_or_of_someone_else_is_not_mapped() -> None:
    world = World()
    producer_id, producer_epoch = world.init()
    for current in (None, world.value):
        with pytest.raises(InvalidProducerIdMapping):
            takes_part(current, ProducerId(producer_id + 1), producer_epoch, P0, TV2, world.term)


def test_verification_tells_members_from_those_that_must_join() -> None:
    world = World()
    producer = world.init()
    assert not takes_part(world.value, *producer, P0, TV2, world.term)
    world.write(producer, P0)
    assert takes_part(world.value, *producer, P0, TV2, world.term)
    assert takes_part(world.value, *producer, P0, TV1, world.term)
    assert not takes_part(world.value, *producer, P1, TV2, world.term)
    with pytest.raises(InvalidTransactionState):
        takes_part(world.value, *producer, P1, TV1, world.term)


@pytest.mark.parametrize("status", [Status.PREPARE_COMMIT, Status.PREPARE_ABORT])
def test_a_prepared_transaction_takes_nothing_more(status: Status) -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    world.store.apply(replace(world.value, status=status), world.now_ms)
    commands: list[Command] = [
        AddPartitions(*producer, frozenset({P0})),
        AddOffsets(*producer, 1),
        WriteRecords(*producer, frozenset({P0}), TV1),
        WriteOffsets(*producer, 1, TV2),
    ]
    for command in commands:
        assert world.refusal(command) is ConcurrentTransactions


def test_a_batch_outside_of_the_open_transaction_of_its_producer_is_refused() -> None:
    world = World()
    producer = world.init()
    check_plain(None)
    check_plain(world.store.of_producer(producer[0]))
    world.write(producer, P0)
    with pytest.raises(InvalidTransactionState):
        check_plain(world.store.of_producer(producer[0]))


def test_markers_of_a_coordinator_that_is_over_are_refused() -> None:
    check_coordinator(3, Term(3))
    check_coordinator(4, Term(3))
    with pytest.raises(TransactionCoordinatorFenced):
        check_coordinator(2, Term(3))


# Rule 11: the same sequences with other records


@pytest.mark.parametrize("dialect", [TV1, TV2])
def test_a_doomed_transaction_can_only_be_aborted(dialect: Dialect) -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0, dialect=dialect)
    decision = world.doom(producer)
    assert type(decision.refusal) is TransactionAbortable
    assert [value.is_doomed for value in decision.values] == [True]
    refused: list[Command] = [
        AddPartitions(*producer, frozenset({P1})),
        WriteRecords(*producer, frozenset({P0}), dialect),
        WriteOffsets(*producer, 1, dialect),
        End(*producer, True, dialect),
        Doom(*producer),
    ]
    for command in refused:
        assert world.refusal(command) is TransactionAbortable
    world.end(producer, commit=False, dialect=dialect)
    assert world.frames[-1].markers is not None
    assert not world.frames[-1].markers.commit
    world.transact((world.value.producer_id, world.value.producer_epoch), dialect=dialect)


def test_a_doom_ends_with_a_new_incarnation_or_a_timeout_or_a_term() -> None:
    def doomed() -> World:
        world = World()
        producer = world.init()
        world.write(producer, P0)
        world.doom(producer)
        return world

    world = doomed()
    world.transact(world.init())
    world = doomed()
    world.pass_time(TIMEOUT_MS)
    assert not world.value.is_doomed
    world = doomed()
    world.raise_term()
    assert not world.value.is_doomed


def test_only_the_present_epoch_can_doom_and_only_what_is_open() -> None:
    world = World()
    stale = world.init()
    producer = world.init(stale)
    assert world.refusal(Doom(*producer)) is TransactionAbortable
    world.write(producer, P0)
    assert world.refusal(Doom(*stale)) is ProducerFenced


# Topics that are deleted


def test_a_deleted_topic_drops_out_and_the_rest_is_committed() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0, P1, TopicPartition("gone", 0), TopicPartition("gone", 1))
    world.take(ForgetTopic("gone"))
    markers = world.end(producer, commit=True).markers
    assert markers is not None
    assert markers.partitions == (P0, P1)


def test_a_transaction_whose_partitions_are_all_deleted_still_ends() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    world.take(ForgetTopic(P0.topic))
    assert world.value.status is Status.ONGOING
    decision = world.end(producer, commit=True)
    assert decision.markers is None
    assert decision.values[-1].status is Status.COMPLETE_COMMIT


def test_deleting_another_topic_writes_nothing() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    assert not world.take(ForgetTopic("gone")).values


def test_refusals_name_the_transactional_id() -> None:
    world = World()
    producer = world.init()
    with pytest.raises(RequestError, match="'orders'"):
        world.take(WriteRecords(*producer, frozenset({P0}), TV1))

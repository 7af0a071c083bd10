"""InitProducerId: who is alive under a transactional id, and which epochs are given out."""

import pytest
from msgspec.structs import replace

from semel.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionTimeout,
    ProducerFenced,
)
from semel.transactions.commands import (
    AddPartitions,
    End,
    ExpireId,
    InitProducer,
    TransactionSettings,
)
from semel.transactions.transaction import Status
from semel.types import EPOCH_MAX, ProducerEpoch, ProducerId, TransactionalId
from support.transaction_world import (
    FIRST_PRODUCER_ID,
    ID,
    P0,
    P1,
    TIMEOUT_MS,
    TV1,
    TV2,
    Producer,
    World,
    epoch,
)


def world_at(producer_epoch: int) -> tuple[World, Producer]:
    """A world whose producer has used up nearly all of its epochs."""
    world = World()
    producer_id, _ = world.init()
    world.store.apply(replace(world.value, producer_epoch=epoch(producer_epoch)), world.now_ms)
    return world, (producer_id, epoch(producer_epoch))


def test_the_first_incarnation_gets_a_new_producer_id_and_epoch_0() -> None:
    world = World()
    assert world.init() == (FIRST_PRODUCER_ID, 0)
    assert world.value.status is Status.EMPTY
    assert world.next_producer_id == FIRST_PRODUCER_ID + 1


def test_each_new_incarnation_keeps_the_producer_id_and_raises_the_epoch_by_one() -> None:
    world = World()
    given = [world.init() for _ in range(4)]
    assert given == [(FIRST_PRODUCER_ID, number) for number in range(4)]


def test_a_new_incarnation_rolls_back_what_the_old_one_left_open() -> None:
    world = World()
    old = world.init()
    world.write(old, P1, P0)
    new = world.init()
    assert new == (old[0], old[1] + 1)
    frame = world.frames[-1]
    assert [value.status for value in frame.values] == [
        Status.PREPARE_ABORT,
        Status.COMPLETE_ABORT,
        Status.EMPTY,
    ]
    assert frame.markers is not None
    assert not frame.markers.commit
    assert frame.markers.partitions == (P0, P1)
    assert (frame.markers.producer_id, frame.markers.producer_epoch) == new


def test_fencing_an_open_transaction_bumps_once_and_not_twice() -> None:
    world = World()
    old = world.init()
    world.write(old, P0)
    assert world.init()[1] == old[1] + 1


def test_the_old_incarnation_is_fenced_wherever_it_turns() -> None:
    world = World()
    old = world.init()
    world.init()
    assert world.refusal(InitProducer(ID, TIMEOUT_MS, *old)) is ProducerFenced
    assert world.refusal(AddPartitions(*old, frozenset({P0}))) is ProducerFenced
    for commit in (True, False):
        for dialect in (TV1, TV2):
            assert world.refusal(End(*old, commit, dialect)) is ProducerFenced


def test_a_producer_that_names_its_epoch_gets_the_next_one() -> None:
    world = World()
    first = world.init()
    assert world.init(first) == (first[0], 1)


def test_a_retry_that_names_the_last_epoch_gets_the_same_answer_and_writes_nothing() -> None:
    world = World()
    first = world.init()
    second = world.init(first)
    frame_count = len(world.frames)
    assert world.init(first) == second
    assert len(world.frames) == frame_count


def test_a_late_retry_does_not_end_the_transaction_that_its_producer_has_begun_since() -> None:
    world = World()
    first = world.init()
    second = world.init(first)
    world.write(second, P0)
    assert world.init(first) == second
    assert world.value.status is Status.ONGOING


def test_a_newcomer_makes_the_epoch_before_it_forgotten() -> None:
    """Otherwise a zombie that retries is handed the epoch of its successor."""
    world = World()
    zombie = world.init()
    world.init(zombie)
    world.init()
    assert world.refusal(InitProducer(ID, TIMEOUT_MS, zombie[0], epoch(1))) is ProducerFenced
    assert world.refusal(InitProducer(ID, TIMEOUT_MS, *zombie)) is ProducerFenced


def test_a_zombie_that_retries_its_abort_is_not_handed_the_epoch_of_its_successor() -> None:
    world = World()
    zombie = world.init()
    world.write(zombie, P0)
    world.init()
    assert world.value.status is Status.EMPTY
    for commit in (False, True):
        assert world.refusal(End(*zombie, commit, TV2)) is ProducerFenced


def test_also_a_producer_that_recovers_cannot_have_its_old_transaction_called_aborted() -> None:
    world = World()
    before = world.init()
    world.write(before, P0)
    after = world.init(before)
    assert world.value.status is Status.EMPTY
    assert world.refusal(End(*before, False, TV2)) is ProducerFenced
    assert world.value.producer_epoch == after[1]


def test_an_id_that_was_forgotten_begins_anew_also_for_a_producer_that_names_itself() -> None:
    world = World()
    old = world.init()
    world.take(ExpireId())
    assert world.init(old) == (FIRST_PRODUCER_ID + 1, 0)


@pytest.mark.parametrize("named", [False, True])
def test_the_last_epoch_is_followed_by_a_new_producer_id(named: bool) -> None:
    world, last = world_at(EPOCH_MAX - 1)
    new = world.init(last) if named else world.init()
    assert new == (FIRST_PRODUCER_ID + 1, 0)
    assert world.value.previous_producer_id == FIRST_PRODUCER_ID


def test_the_retry_of_a_change_of_producer_id_is_answered_as_its_original() -> None:
    world, last = world_at(EPOCH_MAX - 1)
    new = world.init(last)
    assert world.init(last) == new
    # Under the next epoch it is a retry no longer.
    world.init(new)
    assert world.refusal(InitProducer(ID, TIMEOUT_MS, *last)) is ProducerFenced


def test_a_newcomer_that_changed_the_producer_id_is_not_given_away_to_the_old_one() -> None:
    world, last = world_at(EPOCH_MAX - 1)
    world.init()
    assert world.refusal(InitProducer(ID, TIMEOUT_MS, *last)) is ProducerFenced


@pytest.mark.parametrize("left", range(5))
def test_epoch_32767_is_never_handed_out(left: int) -> None:
    world, producer = world_at(EPOCH_MAX - 1 - left)
    for step in range(left + 3):
        world.write(producer, P0)
        producer = world.init() if step % 2 else world.transact(producer)
        assert producer[1] < EPOCH_MAX
    assert producer[0] != FIRST_PRODUCER_ID


def test_markers_of_an_exhausted_epoch_still_go_to_the_producer_id_that_wrote() -> None:
    world, last = world_at(EPOCH_MAX - 1)
    world.write(last, P0)
    assert world.init() == (FIRST_PRODUCER_ID + 1, 0)
    markers = world.frames[-1].markers
    assert markers is not None
    assert (markers.producer_id, markers.producer_epoch) == (FIRST_PRODUCER_ID, EPOCH_MAX)


@pytest.mark.parametrize("status", [Status.PREPARE_COMMIT, Status.PREPARE_ABORT])
def test_a_prepared_transaction_holds_up_newcomers_and_retries_but_not_the_fencing(
    status: Status,
) -> None:
    world = World()
    zombie = world.init()
    old = world.init(zombie)
    world.write(old, P0)
    world.store.apply(replace(world.value, status=status), world.now_ms)
    for producer in ((), old, zombie):
        command = InitProducer(ID, TIMEOUT_MS, *producer)
        assert world.refusal(command) is ConcurrentTransactions
    stranger = (ProducerId(old[0] + 7), old[1])
    assert world.refusal(InitProducer(ID, TIMEOUT_MS, *stranger)) is ProducerFenced


@pytest.mark.parametrize("timeout_ms", [-1, 0, 1_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    world = World(TransactionSettings(timeout_ms_max=1_000))
    command = InitProducer(ID, timeout_ms)
    with pytest.raises(InvalidTransactionTimeout):
        world.take(command)
    assert world.store.get(ID) is None


def test_the_largest_timeout_is_allowed_and_is_that_of_the_latest_incarnation() -> None:
    world = World(TransactionSettings(timeout_ms_max=1_000))
    world.init(timeout_ms=1_000)
    world.init(timeout_ms=1)
    assert world.value.timeout_ms == 1


@pytest.mark.parametrize("transactional_id", ["", "x" * 2**15, "é" * 2**14])
def test_an_id_that_no_record_could_hold_is_refused(transactional_id: str) -> None:
    with pytest.raises(InvalidRequest):
        World().take(InitProducer(TransactionalId(transactional_id), TIMEOUT_MS))


def test_a_producer_id_without_an_epoch_is_refused() -> None:
    world = World()
    producer_id, producer_epoch = world.init()
    assert world.refusal(InitProducer(ID, TIMEOUT_MS, producer_id)) is InvalidRequest
    half = InitProducer(ID, TIMEOUT_MS, producer_epoch=ProducerEpoch(producer_epoch))
    assert world.refusal(half) is InvalidRequest


def test_an_id_expires_only_when_nothing_is_open() -> None:
    world = World()
    producer = world.init()
    world.write(producer, P0)
    assert not world.take(ExpireId()).values
    producer = world.transact(producer)
    (gone,) = world.take(ExpireId()).values
    assert gone.status is Status.DEAD
    assert world.store.get(ID) is None
    assert world.store.of_producer(producer[0]) is None


def test_after_its_id_has_expired_a_producer_is_told_that_the_mapping_is_gone() -> None:
    world = World()
    old = world.init()
    world.take(ExpireId())
    assert world.refusal(AddPartitions(*old, frozenset({P0}))) is InvalidProducerIdMapping
    assert world.refusal(End(*old, True, TV2)) is InvalidProducerIdMapping

"""The rules of the producer's core, one by one."""

import pytest

from client.producing.producer_core import (
    LATER_MS,
    OTHER,
    PLACE,
    PRODUCER,
    answer,
    drained,
    made,
    positions,
    put,
    recognised,
)
from semel.client.producing.core import ProducerCore
from semel.client.producing.requests import BatchAnswer
from semel.client.producing.settings import ProducerSettings
from semel.errors import (
    DuplicateSequence,
    MessageTooLarge,
    NetworkException,
    NotLeaderOrFollower,
    OutOfOrderSequence,
    RequestTimedOut,
    UnknownProducerId,
)
from semel.types import ProducerIdAndEpoch


def test_a_batch_gets_its_sequence_when_it_is_drained_and_not_before() -> None:
    core = recognised()
    batch = put(core)
    assert batch.position is None
    drained(core)
    assert batch.position == 1


def test_five_requests_are_under_way_and_no_more() -> None:
    core = recognised()
    for _ in range(8):
        put(core)
    requests = drained(core)
    assert positions(requests) == [1, 2, 3, 4, 5]
    answer(core, requests[0])
    assert positions(drained(core)) == [6]


def test_the_first_batch_to_a_partition_goes_alone() -> None:
    core = made()
    put(core)
    put(core)
    requests = drained(core)
    assert positions(requests) == [0]
    answer(core, requests[0])
    assert positions(drained(core)) == [1]


def test_after_a_failure_one_request_at_a_time_goes_until_back_in_sequence() -> None:
    core = recognised()
    for _ in range(4):
        put(core)
    for request in drained(core):
        answer(core, request, NotLeaderOrFollower("moved"))
    core.learn_leaders([(PLACE, 1)])
    put(core)
    for expected in (1, 2, 3):
        (request,) = drained(core, LATER_MS)
        assert positions([request]) == [expected]
        answer(core, request, at_ms=LATER_MS)
    assert positions(drained(core, LATER_MS)) == [4, 5]


def test_what_goes_again_waits_until_it_is_known_who_leads() -> None:
    """A frozen leader would be waited for once more, while another leads already."""
    core = recognised()
    put(core)
    (request,) = drained(core)
    core.lost(request, RequestTimedOut("no answer"), 0)
    assert drained(core, LATER_MS) == []
    core.learn_leaders([(PLACE, 2)])
    (again,) = drained(core, LATER_MS)
    assert again.node_id == 2


def test_nothing_is_sent_while_one_before_it_has_no_answer_and_must_go_again() -> None:
    core = recognised()
    put(core)
    put(core)
    first, second = drained(core)
    answer(core, second, OutOfOrderSequence("gap"))
    put(core)
    assert drained(core, LATER_MS) == []
    answer(core, first)
    assert positions(drained(core, LATER_MS)) == [2, 3]


def test_a_late_answer_is_judged_by_what_was_known_when_it_was_sent() -> None:
    core = recognised()
    put(core)
    batch = put(core)
    first, second = drained(core)
    answer(core, first)
    answer(core, second, OutOfOrderSequence("it overtook the first"))
    assert not batch.is_done
    assert positions(drained(core)) == [2]


def test_a_gap_before_the_batch_after_the_last_acknowledged_ends_the_epoch() -> None:
    core = recognised()
    lost = put(core)
    following = put(core)
    first, second = drained(core)
    answer(core, first, OutOfOrderSequence("gap"))
    assert isinstance(lost.error, OutOfOrderSequence)
    answer(core, second, OutOfOrderSequence("gap"))
    drained(core)
    assert (following.producer, following.position) == (ProducerIdAndEpoch(7, 1), 0)


def test_a_new_epoch_waits_for_the_answers_under_the_old_one() -> None:
    core = recognised()
    put(core)
    following = put(core)
    first, second = drained(core)
    answer(core, first, MessageTooLarge("no"))
    put(core)
    assert drained(core) == []
    answer(core, second)
    assert following.error is None
    (request,) = drained(core)
    assert request.batches[0].producer == ProducerIdAndEpoch(7, 1)


def test_a_batch_that_may_be_stored_is_never_sent_under_another_epoch() -> None:
    """What a lost connection has swallowed may arrive after the broker said that it has a gap."""
    core = recognised(delivery_timeout_ms=10_000, request_timeout_ms=100)
    overdue = put(core)
    drained_overdue = drained(core, 0)
    in_doubt = put(core)
    drained_in_doubt = drained(core, 9_000)
    for request in drained_overdue + drained_in_doubt:
        core.lost(request, NetworkException("lost"), 9_500)
    core.learn_leaders([(PLACE, 1)])
    (asked,) = drained(core, 10_000)
    assert isinstance(overdue.error, RequestTimedOut)
    assert asked.batches == [in_doubt]
    assert in_doubt.producer == PRODUCER
    answer(core, asked, OutOfOrderSequence("gap"), 10_000)
    assert isinstance(in_doubt.error, OutOfOrderSequence)
    assert drained(core, 11_000) == []


def test_a_retry_is_made_of_the_same_bytes() -> None:
    core = recognised()
    batch = put(core, b"value")
    (request,) = drained(core)
    first = batch.sealed(is_transactional=False, compression=core.settings.compression)
    core.lost(request, NetworkException("lost"), 0)
    drained(core, LATER_MS)
    assert batch.sealed(is_transactional=False, compression=core.settings.compression) == first


def test_a_duplicate_is_a_success() -> None:
    core = recognised()
    batch = put(core)
    (request,) = drained(core)
    answer(core, request, DuplicateSequence("known"))
    assert batch.is_done
    assert batch.error is None


@pytest.mark.parametrize(("log_start_offset", "is_given_up"), [(5, False), (0, True)])
def test_a_forgotten_producer_begins_anew_unless_acknowledged_records_are_missing(
    log_start_offset: int, is_given_up: bool
) -> None:
    core = recognised()
    batch = put(core)
    (request,) = drained(core)
    core.answered(request, [BatchAnswer(UnknownProducerId("?"), -1, -1, log_start_offset)], 0)
    assert batch.is_done is is_given_up
    if not is_given_up:
        drained(core)
        assert (batch.producer, batch.position) == (ProducerIdAndEpoch(7, 1), 0)


def test_records_share_a_batch_until_it_is_full_or_ripe() -> None:
    core = made(batch_size_max=310, linger_ms=5)
    first = put(core, b"x" * 100)
    assert put(core, b"x" * 100) is first
    assert drained(core, 0) == []
    assert core.drain(0).wake_at_ms == 5
    assert positions(drained(core, 5)) == [0]
    assert put(core, b"x" * 100) is not first


def test_a_full_batch_does_not_wait() -> None:
    core = made(batch_size_max=310, linger_ms=5)
    for _ in range(3):
        put(core, b"x" * 100)
    assert len(drained(core, 0)) == 1


def test_memory_is_bounded_and_given_back() -> None:
    core = made(buffered_size_max=1_000)
    batches = []
    while core.has_room:
        batches.append(put(core, b"x" * 100))
    assert 5 <= len(batches) <= 10
    while requests := drained(core):
        for request in requests:
            answer(core, request)
    assert core.buffered_size == 0


def test_an_overdue_batch_is_given_up_and_others_go_on() -> None:
    core = recognised(delivery_timeout_ms=1_000, request_timeout_ms=500)
    core.learn_leaders([(PLACE, None)])
    batch = put(core)
    assert core.drain(0).wake_at_ms == 1_000
    core.drain(1_000)
    assert isinstance(batch.error, RequestTimedOut)
    core.learn_leaders([(PLACE, 2)])
    put(core)
    (request,) = drained(core, 1_001)
    assert (request.node_id, positions([request])) == (2, [1])


def test_a_leader_that_moved_gets_what_the_old_one_refused() -> None:
    core = recognised()
    put(core)
    (request,) = drained(core)
    answer(core, request, NotLeaderOrFollower("moved"))
    assert core.wants_leaders
    core.learn_leaders([(PLACE, 2)])
    (request,) = drained(core, LATER_MS)
    assert (request.node_id, positions([request])) == (2, [1])


def test_partitions_take_turns_when_requests_are_full() -> None:
    core = made(request_size_max=100, in_flight_max=1)
    for _ in range(3):
        put(core, b"x" * 50, PLACE)
        put(core, b"x" * 50, OTHER)
    turns = []
    while requests := drained(core):
        turns += [request.batches[0].partition for request in requests]
        for request in requests:
            answer(core, request)
    assert turns == [PLACE, OTHER] * 3


def test_without_idempotence_a_partition_has_one_request_and_no_sequence() -> None:
    core = ProducerCore(
        ProducerSettings(acks=1, is_idempotent=False, batch_size_max=1, linger_ms=0)
    )
    core.learn_leaders([(PLACE, 1)])
    batch = put(core)
    put(core)
    (request,) = drained(core)
    content = batch.sealed(is_transactional=False, compression=core.settings.compression)
    assert content[43:61] == b"\xff" * 14 + b"\x00\x00\x00\x01"
    answer(core, request, MessageTooLarge("no"))
    assert len(drained(core)) == 1


def test_a_record_that_was_refused_until_its_time_was_up_says_why() -> None:
    core = recognised(delivery_timeout_ms=1_500)
    batch = put(core)
    (request,) = drained(core)
    refusal = NotLeaderOrFollower(f"{PLACE}: the disk is full")
    answer(core, request, refusal)
    drained(core, 1_500)
    assert isinstance(batch.error, RequestTimedOut)
    assert str(batch.error) == (
        f"{PLACE}: not stored within 1500 ms; the last attempt: the disk is full"
    )
    assert batch.error.__cause__ is refusal

"""Requests on connections that their clients have replaced, and what must never be refused."""

import random

import pytest

from semel.broker.transactional import SEEN_MIN, LateRequests
from semel.types import ProducerEpoch, ProducerId

PRODUCER = ProducerId(5)
EPOCH = ProducerEpoch(3)
API_KEYS = PRODUCE, ADD_PARTITIONS, ADD_OFFSETS, END, OFFSET_COMMIT = 0, 24, 25, 26, 28


def test_a_request_on_an_older_connection_than_the_newest_seen_is_late() -> None:
    late = LateRequests()
    assert late.admit(PRODUCER, EPOCH, END, 10)
    assert late.admit(PRODUCER, EPOCH, END, 12)
    assert not late.admit(PRODUCER, EPOCH, END, 10)
    assert not late.admit(PRODUCER, EPOCH, END, 11)
    assert late.admit(PRODUCER, EPOCH, END, 12)


@pytest.mark.parametrize("api_key", API_KEYS)
def test_each_kind_of_request_counts_for_itself(api_key: int) -> None:
    """A client may have one connection for data and an older one for the coordinator."""
    late = LateRequests()
    for other in {*API_KEYS} - {api_key}:
        late.admit(PRODUCER, EPOCH, other, 12)
    assert late.admit(PRODUCER, EPOCH, api_key, 10)
    late.admit(PRODUCER, EPOCH, api_key, 11)
    assert not late.admit(PRODUCER, EPOCH, api_key, 10)


def test_each_producer_counts_for_itself() -> None:
    late = LateRequests()
    late.admit(PRODUCER, EPOCH, END, 12)
    assert late.admit(ProducerId(6), EPOCH, END, 10)


def test_a_new_epoch_begins_anew_and_drops_the_old_one() -> None:
    late = LateRequests()
    late.admit(PRODUCER, EPOCH, END, 12)
    assert late.admit(PRODUCER, ProducerEpoch(EPOCH + 1), END, 10)
    assert len(late) == 1
    assert late.admit(PRODUCER, EPOCH, END, 9), "it is fenced by its epoch, not here"
    assert not late.admit(PRODUCER, ProducerEpoch(EPOCH + 1), END, 9)


def test_that_the_newest_connection_has_closed_does_not_let_an_older_one_pass() -> None:
    late = LateRequests()
    for number in (10, 12):
        late.opened(number)
    late.admit(PRODUCER, EPOCH, END, 12)
    late.closed(12)
    fill(late, SEEN_MIN * 2, connection_number=10)
    assert not late.admit(PRODUCER, EPOCH, END, 10)


def fill(late: LateRequests, count: int, connection_number: int) -> None:
    for number in range(count):
        late.admit(ProducerId(1_000 + number), EPOCH, PRODUCE, connection_number)


def test_what_no_open_connection_is_older_than_is_dropped() -> None:
    late = LateRequests()
    for number in range(50 * SEEN_MIN):
        late.opened(number)
        if number >= 8:
            late.closed(number - 8)
        late.admit(ProducerId(number), EPOCH, PRODUCE, number)
        assert len(late) <= SEEN_MIN + 1


def test_it_agrees_with_remembering_everything() -> None:
    """The oracle keeps every request it has seen, and knows no epochs, sweeps or closings."""
    rng = random.Random(3)
    late = LateRequests()
    newest: dict[tuple[int, int, int], int] = {}
    epochs = [0] * 40
    connections: list[int] = []
    accepted = 0
    for _ in range(20_000):
        if not connections or rng.random() < 0.1:
            connections.append(accepted)
            late.opened(accepted)
            accepted += 1
        if len(connections) > 6:
            late.closed(connections.pop(rng.randrange(3)))
        producer = rng.randrange(len(epochs))
        if rng.random() < 0.05:
            epochs[producer] += 1
        connection = rng.choice(connections)
        key = (producer, epochs[producer], rng.choice(API_KEYS))
        expected = connection >= newest.get(key, -1)
        admitted = late.admit(
            ProducerId(producer), ProducerEpoch(epochs[producer]), key[2], connection
        )
        assert admitted is expected
        if expected:
            newest[key] = connection


def test_whatever_stands_on_a_connection_from_before_a_takeover_is_late() -> None:
    late = LateRequests()
    late.took_over(5)
    producer_id, epoch = ProducerId(1), ProducerEpoch(0)
    assert not late.admit(producer_id, epoch, 24, 5)
    assert late.admit(producer_id, epoch, 24, 6)

"""The rules of the producer's core are left out one by one; a named test must find each absence."""

from collections.abc import Callable
from typing import Any

import pytest

from client.producing import test_core_rules
from semel.client import outcome
from semel.client.producing.batch import ProducerBatch
from semel.client.producing.core import ProducerCore
from semel.client.producing.queue import PartitionQueue
from semel.errors import OutOfOrderSequence
from support.hostile_cluster import ProducerRun, Temper

Kill = Callable[[], None]
Plant = Callable[[pytest.MonkeyPatch], None]

SEED_COUNT_MAX = 1_000


def the_first_batch_does_not_go_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerCore, "_are_starts_checked", True)


def the_window_counts_answers_and_not_sequences(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionQueue, "_window", lambda queue: len(queue.in_flight))


def a_late_answer_is_judged_by_what_was_acknowledged_since(patch: pytest.MonkeyPatch) -> None:
    refused = ProducerCore._refused

    def judged_now(core: ProducerCore, batch: ProducerBatch, *rest: Any) -> None:
        queue = core.queue(batch.partition)
        batch.was_next = batch.position == queue._acknowledged_position
        refused(core, batch, *rest)

    patch.setattr(ProducerCore, "_refused", judged_now)


def every_gap_is_fatal(patch: pytest.MonkeyPatch) -> None:
    take = PartitionQueue.take

    def always_next(queue: PartitionQueue, batch: ProducerBatch) -> None:
        take(queue, batch)
        batch.was_next = True

    patch.setattr(PartitionQueue, "take", always_next)


def a_lost_answer_counts_as_a_refusal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcome, "may_be_stored", lambda error: False)


def a_gap_proves_that_a_batch_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    refused = ProducerCore._refused

    def forgetting(core: ProducerCore, batch: ProducerBatch, error: Any, *rest: Any) -> None:
        if isinstance(error, OutOfOrderSequence):
            batch.may_be_stored = False
        refused(core, batch, error, *rest)

    patch.setattr(ProducerCore, "_refused", forgetting)


def a_new_epoch_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionQueue, "is_resolved", property(lambda queue: not queue.in_flight))


def a_gap_does_not_end_the_epoch(patch: pytest.MonkeyPatch) -> None:
    give_up = PartitionQueue.give_up

    def unbroken(queue: PartitionQueue, batch: ProducerBatch) -> None:
        give_up(queue, batch)
        queue.is_broken = False

    patch.setattr(PartitionQueue, "give_up", unbroken)


def the_epoch_stays_the_same(patch: pytest.MonkeyPatch) -> None:
    restart = PartitionQueue.restart
    patch.setattr(PartitionQueue, "restart", lambda queue, producer: restart(queue, queue.producer))


def a_retry_gets_a_new_sequence(patch: pytest.MonkeyPatch) -> None:
    def as_new(queue: PartitionQueue, batch: ProducerBatch) -> None:
        queue.in_flight.remove(batch)
        batch.forget_sequence()
        queue.closed.appendleft(batch)

    patch.setattr(PartitionQueue, "send_again", as_new)


def new_batches_overtake_those_that_go_again(patch: pytest.MonkeyPatch) -> None:
    front = PartitionQueue.front

    def impatient(queue: PartitionQueue, now_ms: float) -> ProducerBatch | None:
        return queue._first_new(now_ms) or front(queue, now_ms)

    patch.setattr(PartitionQueue, "front", impatient)


def schedules() -> None:
    for seed in range(SEED_COUNT_MAX):
        for temper in Temper:
            ProducerRun(seed, temper).go()


PLANTS: list[tuple[Plant, Kill]] = [
    (the_first_batch_does_not_go_alone, schedules),
    (the_window_counts_answers_and_not_sequences, schedules),
    (
        a_late_answer_is_judged_by_what_was_acknowledged_since,
        test_core_rules.test_a_late_answer_is_judged_by_what_was_known_when_it_was_sent,
    ),
    (every_gap_is_fatal, schedules),
    (a_lost_answer_counts_as_a_refusal, schedules),
    (
        a_gap_proves_that_a_batch_is_not_stored,
        test_core_rules.test_a_batch_that_may_be_stored_is_never_sent_under_another_epoch,
    ),
    (a_new_epoch_does_not_wait, schedules),
    (a_gap_does_not_end_the_epoch, schedules),
    (the_epoch_stays_the_same, schedules),
    (a_retry_gets_a_new_sequence, schedules),
    (new_batches_overtake_those_that_go_again, schedules),
]


@pytest.mark.parametrize(("plant", "kill"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_missing_rule_is_found(plant: Plant, kill: Kill, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        kill()

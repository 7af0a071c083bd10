"""The producer's core among hostile brokers: once, and in order, whatever they do."""

import pytest

from support.hostile_cluster import ProducerRun, Temper

SEED_COUNT = 1_000


@pytest.mark.parametrize("temper", Temper, ids=lambda temper: temper.name.lower())
def test_records_are_stored_once_and_in_order_whatever_the_brokers_do(temper: Temper) -> None:
    for seed in range(SEED_COUNT):
        ProducerRun(seed, temper).go()


def test_an_epoch_that_is_used_up_is_followed_by_another_producer_id() -> None:
    used = set()
    for seed in range(SEED_COUNT // 10):
        run = ProducerRun(seed, Temper.HURRIED, first_epoch=32_765)
        run.go()
        used |= {run.core.producer.producer_id}
    assert len(used) > 1

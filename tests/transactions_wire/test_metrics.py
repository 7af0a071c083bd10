"""What the broker counts about transactions, against what a test has done to it."""

from collections.abc import Iterator

import pytest

from semel.testing import Broker
from support.kafka_codes import INVALID_PRODUCER_EPOCH, NONE, PRODUCER_FENCED
from support.raw_client import METRICS, RawClient, metric, until_shown
from support.transactional_wire import TV1, WireProducer, fetch


@pytest.fixture
def fresh() -> Iterator[Broker]:
    """A broker that no one has asked for anything yet."""
    with Broker(arguments=METRICS, settings={"metrics.interval.ms": 100}) as broker:
        yield broker


def ended(broker: Broker, how: str) -> float:
    return metric(broker, rf'semel_transactions_ended_total\{{how="{how}"\}}')


def test_transactions_are_counted_by_how_they_end(fresh: Broker) -> None:
    with RawClient(fresh) as client, WireProducer(fresh, "a") as producer:
        client.create_topic("t")
        producer.init()
        for commit in (True, True, False):
            producer.write("t", b"v")
            assert producer.end(commit=commit) == NONE
        assert ended(fresh, "commit") == 2
        assert ended(fresh, "abort") == 1
        assert ended(fresh, "timeout") == 0
        assert metric(fresh, "semel_commit_latency_seconds_count") == 2
        assert metric(fresh, "semel_commit_latency_seconds_sum") > 0
        producer.timeout_ms = 1
        producer.init()
        producer.write("t", b"slow")
        fetch(client, "t", 6, max_wait_ms=30_000)
        assert ended(fresh, "timeout") == 1
        assert ended(fresh, "abort") == 1


def test_open_transactions_their_age_and_what_they_hold_back_are_shown(fresh: Broker) -> None:
    with RawClient(fresh) as client, WireProducer(fresh, "a") as a, WireProducer(fresh, "b") as b:
        client.create_topic("held")
        client.create_topic("free")
        assert metric(fresh, "semel_transactions_open") == 0
        assert metric(fresh, "semel_transaction_age_seconds_max") == 0
        a.init()
        b.init()
        a.write("held", b"1")
        b.write("held", b"2", b"3")
        fetch(client, "held", 2, isolation=0, max_wait_ms=30_000)
        assert metric(fresh, "semel_transactions_open") == 2
        until_shown(fresh, "semel_last_stable_offset_lag_max", 3)
        assert metric(fresh, r'semel_last_stable_offset_lag\{topic="held"\}') == 3
        assert metric(fresh, "semel_transaction_age_seconds_max") > 0
        a.commit()
        assert metric(fresh, "semel_transactions_open") == 1
        # The first record stands before the one that is open, and the marker behind it.
        until_shown(fresh, "semel_last_stable_offset_lag_max", 3)
        b.commit()
        assert metric(fresh, "semel_transactions_open") == 0
        until_shown(fresh, "semel_last_stable_offset_lag_max", 0)
        assert metric(fresh, "semel_transaction_age_seconds_max") == 0


def test_refusals_of_fenced_producers_are_counted(fresh: Broker) -> None:
    with RawClient(fresh) as client, WireProducer(fresh, "a", TV1) as old:
        client.create_topic("t")
        old.init()
        with WireProducer(fresh, "a") as new:
            new.init()
        assert metric(fresh, "semel_producers_fenced") == 0
        assert old.commit() == PRODUCER_FENCED
        assert old.produce("t", b"x").error_code == INVALID_PRODUCER_EPOCH
        assert metric(fresh, "semel_producers_fenced") == 2
        assert metric(fresh, "semel_requests_late") == 0

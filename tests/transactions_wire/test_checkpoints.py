"""A broker that was stopped cleanly starts from a checkpoint, and knows as much as before."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from semel.testing import Broker
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from support.kafka_codes import (
    INVALID_PRODUCER_EPOCH,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNSTABLE_OFFSET_COMMIT,
)
from support.raw_client import RawClient
from support.transactional_wire import TV1, Versions, WireProducer, committed_offset, fetch

Restart = Callable[[Broker], None]


def kill(broker: Broker) -> None:
    broker.kill()
    broker.start()


def stop(broker: Broker) -> None:
    broker.stop()
    broker.start()


def stop_and_kill(broker: Broker) -> None:
    """What the checkpoint holds is carried on by the process that has read it."""
    stop(broker)
    kill(broker)


@pytest.fixture(params=[kill, stop_and_kill], ids=lambda each: each.__name__)
def restart(request: pytest.FixtureRequest) -> Restart:
    chosen: Restart = request.param
    return chosen


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data") as broker:
        with RawClient(broker) as client:
            client.create_topic("t", 2)
            client.create_group_topic()
        yield broker


def test_all_that_is_known_of_transactions_outlives_the_process(
    broker: Broker, restart: Restart, versions: Versions
) -> None:
    with (
        WireProducer(broker, "open", versions) as producer,
        WireProducer(broker, "ended", TV1) as other,
        WireProducer(broker, "doomed", versions) as doomed,
        WireProducer(broker, "zombie", versions) as zombie,
    ):
        for each in (producer, other, doomed, zombie):
            each.init()
        other.write("t", b"aborted")  # 0
        other.abort()  # 1
        other.write("t", b"committed")  # 2
        other.commit()  # 3
        producer.write("t", b"open")  # 4
        if versions is TV1:
            producer.add_offsets("g")
        assert producer.commit_offsets("g", {("t", 0): 7}) == [NONE]
        doomed.write("t", b"a", partition=1)
        assert doomed.produce("t", b"b", partition=1, sequence=0).error_code != NONE
        with WireProducer(broker, "zombie", versions) as heir:
            heir.init()

        restart(broker)

        for each in (producer, other, doomed, zombie):
            each.reconnect()
        with RawClient(broker) as client:
            found = fetch(client, "t")
            assert found.committed_values == [b"committed"]
            assert found.aborted == [(other.producer_id, 0)]
            assert (found.last_stable_offset, found.high_watermark) == (4, 5)
            assert committed_offset(client, "g", "t", require_stable=True) == (
                -1,
                UNSTABLE_OFFSET_COMMIT,
            )
            assert zombie.produce("t", b"z").error_code == INVALID_PRODUCER_EPOCH
            assert doomed.commit() != NONE
            assert doomed.abort() == NONE
            retried = producer.produce("t", b"open", sequence=0)
            assert (retried.error_code, retried.base_offset) == (NONE, 4)
            assert producer.produce("t", b"x", sequence=5).error_code == (
                OUT_OF_ORDER_SEQUENCE_NUMBER
            )
            assert producer.produce("t", b"more").error_code == NONE
            assert producer.commit() == NONE
            assert fetch(client, "t").committed_values == [b"committed", b"open", b"more"]
            assert fetch(client, "t", partition=1).committed_values == []
            assert committed_offset(client, "g", "t", require_stable=True) == (7, NONE)
            # The aborted sequence may be used again, the committed one is a retry.
            assert other.add("t", 0) == [NONE]
            assert other.produce("t", b"committed", sequence=1).base_offset == 2


def test_a_topic_deleted_in_mid_transaction_stays_out_of_it_after_a_restart(
    broker: Broker, restart: Restart, versions: Versions
) -> None:
    with WireProducer(broker, "a", versions) as producer, RawClient(broker) as client:
        client.create_topic("gone")
        producer.init()
        producer.write("t", b"stays")
        producer.write("gone", b"goes")
        if versions is TV1:
            producer.add_offsets("g")
        assert producer.commit_offsets("g", {("gone", 0): 7, ("t", 0): 3}) == [NONE, NONE]
        request = DeleteTopicsRequest([DeleteTopicState("gone")])
        assert client.call("delete_topics", 6, request).responses[0].error_code == NONE
        restart(broker)
        producer.reconnect()
        assert producer.commit() == NONE
    with RawClient(broker) as client:
        client.create_topic("gone")
        assert fetch(client, "t").committed_values == [b"stays"]
        assert committed_offset(client, "g", "t") == (3, NONE)
        # It belonged to the topic that is no more, and not to its successor of the same name.
        assert committed_offset(client, "g", "gone", require_stable=True) == (-1, NONE)

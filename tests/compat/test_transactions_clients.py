"""The transactional producers of real clients: commit, abort, offsets, fencing, timeouts."""

import logging
from collections.abc import Iterator

import confluent_kafka
import pytest

from compat.transactional_producers import PRODUCERS, transactional_producer
from semel.testing import Broker
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from support.raw_client import METRICS, RawClient, metric
from support.transactional_wire import committed_offset, fetch, list_offset

READ_COMMITTED = 1


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(arguments=METRICS) as broker:
        yield broker
        # Whatever these clients did, no living connection of theirs was taken for a late one.
        assert metric(broker, "semel_requests_late") == 0
        assert "Traceback" not in broker.complaints()


@pytest.fixture
def reader(broker: Broker, topic: str) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        client.create_topic(topic, 2)
        yield client


@pytest.fixture(params=PRODUCERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    servers: str, reader: RawClient, topic: str, kind: str
) -> None:
    with transactional_producer(kind, servers, topic) as producer:
        producer.init()
        for number in range(10):
            producer.begin()
            for partition in range(2):
                producer.send(topic, b"%d" % number, partition)
            producer.flush()
            if number % 2:
                producer.abort()
            else:
                producer.commit()
                # When the client has heard of it, it is there.
                last = list_offset(reader, topic, READ_COMMITTED) - 2
                assert fetch(reader, topic, last).committed_values[-1] == b"%d" % number
    for partition in range(2):
        found = fetch(reader, topic, partition=partition)
        assert found.committed_values == [b"0", b"2", b"4", b"6", b"8"]
        assert found.last_stable_offset == found.high_watermark


def test_aborts_with_records_under_way_leave_nothing_behind(
    servers: str, reader: RawClient, topic: str, kind: str
) -> None:
    """The records of an abort may still be in the client, in the network or in the broker."""
    with transactional_producer(kind, servers, topic) as producer:
        producer.init()
        for number in range(20):
            producer.begin()
            for part in range(20):
                producer.send(topic, b"%d.%d" % (number, part))
            if number % 2:
                producer.commit()
            else:
                producer.abort()
    assert fetch(reader, topic).committed_values == [
        b"%d.%d" % (number, part) for number in range(1, 20, 2) for part in range(20)
    ]


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    servers: str, reader: RawClient, topic: str, group: str, kind: str
) -> None:
    with transactional_producer(kind, servers, topic) as producer:
        producer.init()
        for offset, commit in ((5, True), (9, False), (12, True)):
            producer.begin()
            producer.send(topic, b"v")
            producer.send_offsets(group, topic, offset)
            producer.flush()
            if commit:
                producer.commit()
                assert committed_offset(reader, group, topic, require_stable=True) == (offset, 0)
            else:
                producer.abort()
                assert committed_offset(reader, group, topic, require_stable=True) == (5, 0)


def test_the_older_of_two_producers_on_one_id_is_fenced_and_its_records_are_gone(
    servers: str, reader: RawClient, topic: str, kind: str
) -> None:
    with transactional_producer(kind, servers, topic) as old:
        old.init()
        old.begin()
        old.send(topic, b"old")
        old.flush()
        with transactional_producer(kind, servers, topic) as new:
            new.init()
            new.begin()
            new.send(topic, b"new")
            new.commit()
            with pytest.raises(Exception) as caught:  # noqa: PT011
                old.commit()
            assert old.is_fenced(caught.value), caught.value
    assert fetch(reader, topic).committed_values == [b"new"]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_client_learns_it(
    servers: str, reader: RawClient, topic: str, kind: str
) -> None:
    with transactional_producer(kind, servers, topic, timeout_ms=1_000) as producer:
        producer.init()
        producer.begin()
        producer.send(topic, b"slow")
        producer.flush()
        # Answered when the broker has ended the transaction.
        found = fetch(reader, topic, max_wait_ms=30_000)
        assert [kind for _, _, kind in found.markers] == ["ABORT"]
        with pytest.raises(Exception) as caught:  # noqa: PT011
            producer.commit()
        assert producer.is_fenced(caught.value), caught.value
    with transactional_producer(kind, servers, topic) as heir:
        heir.init()
        heir.begin()
        heir.send(topic, b"quick")
        heir.commit()
    assert fetch(reader, topic).committed_values == [b"quick"]


def test_a_topic_deleted_in_mid_transaction_does_not_hold_up_the_commit(
    servers: str, reader: RawClient, topic: str, kind: str
) -> None:
    gone = f"{topic}-gone"
    reader.create_topic(gone)
    with transactional_producer(kind, servers, topic) as producer:
        producer.init()
        producer.begin()
        producer.send(topic, b"stays")
        producer.send(gone, b"goes")
        producer.flush()
        request = DeleteTopicsRequest([DeleteTopicState(gone)])
        assert reader.call("delete_topics", 6, request).responses[0].error_code == 0
        producer.commit()
        producer.begin()
        producer.send(topic, b"next")
        producer.commit()
    assert fetch(reader, topic).committed_values == [b"stays", b"next"]


@pytest.mark.parametrize("count", [2_000])
def test_thousands_of_transactions_follow_each_other_without_being_told_to_wait(
    servers: str, reader: RawClient, topic: str, count: int
) -> None:
    told: list[str] = []

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    logger = logging.getLogger("librdkafka-of-this-test")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Told())
    settings = {"bootstrap.servers": servers, "transactional.id": topic, "debug": "eos"}
    producer = confluent_kafka.Producer(settings, logger=logger)
    producer.init_transactions(60)
    for number in range(count):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=number % 2)
        producer.commit_transaction(60)
        producer.poll(0)
    concurrent = confluent_kafka.KafkaError(confluent_kafka.KafkaError.CONCURRENT_TRANSACTIONS)
    assert any("EndTxn" in line for line in told)
    assert not [line for line in told if concurrent.str() in line or "Retriable" in line]
    assert list_offset(reader, topic, READ_COMMITTED) == count
    assert list_offset(reader, topic, READ_COMMITTED, partition=1) == count


@pytest.mark.parametrize("kind", ["kafka-python", "aiokafka"])
def test_hundreds_of_transactions_follow_each_other(
    servers: str, reader: RawClient, topic: str, kind: str
) -> None:
    with transactional_producer(kind, servers, topic) as producer:
        producer.init()
        for number in range(200):
            producer.begin()
            producer.send(topic, b"%d" % number)
            producer.commit()
    assert fetch(reader, topic).committed_values == [b"%d" % number for number in range(200)]

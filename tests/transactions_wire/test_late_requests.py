"""Rule 12: what a TV1 client sent before it reconnected can no longer hit a later transaction.

The story is KAFKA-17754. A client sends a request on one connection and hears nothing. It opens
another, repeats the request there, is answered, and goes on to the next transaction, which has the
same epoch. Only then does the first request arrive.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from semel.broker.transactional import LateRequests
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.broker_in_thread import BrokerInThread
from support.compiled import plain_python
from support.kafka_codes import NONE, PRODUCER_FENCED
from support.raw_client import RawClient
from support.transactional_wire import (
    TV1,
    TV2,
    WireProducer,
    answer_to,
    committed_offset,
    fetch,
    frame,
)

Anomaly = Callable[[RawClient, WireProducer], list[str]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerInThread]:
    with BrokerInThread(tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def client(broker: BrokerInThread) -> Iterator[RawClient]:
    with RawClient(broker) as client:
        client.create_topic("t")
        yield client


@pytest.fixture
def producer(broker: BrokerInThread, client: RawClient) -> Iterator[WireProducer]:
    with WireProducer(broker, "a", TV1) as producer:
        producer.init()
        yield producer


def _arrives_late(old: RawClient, module: str, version: int, late: bytes) -> None:
    """Waits for the answer, or for the end of the connection."""
    old.send(late)
    answer_to(old, module, version)


def late_commit(client: RawClient, producer: WireProducer) -> list[str]:
    """A commit that was repeated; the next transaction is half written and then aborted."""
    producer.write("t", b"first")
    late = frame("end_txn", 4, producer.end_request(commit=True))
    old = producer.reconnect()
    assert producer.commit() == NONE
    producer.write("t", b"second")
    _arrives_late(old, "end_txn", 4, late)
    code = producer.abort()
    shown = fetch(client, "t").committed_values
    anomalies = []
    if b"second" in shown:
        anomalies.append("an aborted record is shown")
    if code != NONE:
        anomalies.append(f"the abort was refused with {code}")
    return anomalies


def late_abort(client: RawClient, producer: WireProducer) -> list[str]:
    """An abort that was repeated tears the first half off the next transaction."""
    producer.write("t", b"first")
    late = frame("end_txn", 4, producer.end_request(commit=False))
    old = producer.reconnect()
    assert producer.abort() == NONE
    producer.write("t", b"second")
    _arrives_late(old, "end_txn", 4, late)
    assert producer.add("t", 0) == [NONE]
    assert producer.produce("t", b"third").error_code == NONE
    assert producer.commit() == NONE
    shown = fetch(client, "t").committed_values
    return [] if shown == [b"second", b"third"] else [f"a torn transaction: {shown}"]


def late_produce(client: RawClient, producer: WireProducer) -> list[str]:
    """A record of an aborted transaction, given up by its client, joins the next one."""
    producer.write("t", b"first")
    late = frame("produce", 11, producer.produce_request("t", [b"given up"], sequence=1))
    old = producer.reconnect()
    assert producer.abort() == NONE
    producer.adopt(producer.producer_id, producer.epoch)
    assert producer.add("t", 0) == [NONE]
    assert producer.produce("t", b"second", sequence=0).error_code == NONE
    _arrives_late(old, "produce", 11, late)
    assert producer.commit() == NONE
    shown = fetch(client, "t").committed_values
    return [] if shown == [b"second"] else [f"a record of another transaction: {shown}"]


def late_offsets(client: RawClient, producer: WireProducer) -> list[str]:
    """Offsets of an aborted transaction overwrite those of the next."""
    assert producer.add_offsets("g") == NONE
    topic = TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 5)])
    request = TxnOffsetCommitRequest("a", "g", producer.producer_id, producer.epoch, topics=[topic])
    late = frame("txn_offset_commit", 3, request)
    old = producer.reconnect()
    assert producer.commit_offsets("g", {("t", 0): 5}) == [NONE]
    assert producer.abort() == NONE
    assert producer.add_offsets("g") == NONE
    assert producer.commit_offsets("g", {("t", 0): 7}) == [NONE]
    _arrives_late(old, "txn_offset_commit", 3, late)
    assert producer.commit() == NONE
    found, _ = committed_offset(client, "g", "t")
    return [] if found == 7 else [f"the offset of an aborted transaction: {found}"]


ANOMALIES: tuple[Anomaly, ...] = (late_commit, late_abort, late_produce, late_offsets)


@plain_python
@pytest.mark.parametrize("story", ANOMALIES)
def test_without_the_rule_a_late_request_hits_a_later_transaction(
    client: RawClient,
    producer: WireProducer,
    story: Anomaly,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LateRequests, "admit", lambda *_: True)
    assert story(client, producer) != []


@pytest.mark.parametrize("story", ANOMALIES)
def test_with_the_rule_it_is_refused_and_nothing_happens(
    broker: BrokerInThread, client: RawClient, producer: WireProducer, story: Anomaly
) -> None:
    assert story(client, producer) == []
    assert broker.broker.metrics.requests_late == 1


def test_the_connection_of_a_late_request_is_closed(
    client: RawClient, producer: WireProducer
) -> None:
    producer.write("t", b"v")
    late = frame("end_txn", 4, producer.end_request(commit=True))
    old = producer.reconnect()
    assert producer.commit() == NONE
    old.send(late)
    assert old.is_closed_by_broker


def test_each_kind_of_request_may_have_its_own_connection(
    broker: BrokerInThread, client: RawClient
) -> None:
    """Clients write to the leader and talk to the coordinator on different connections."""
    with WireProducer(broker, "b", TV1) as coordinator, WireProducer(broker, "b", TV1) as leader:
        coordinator.init()
        leader.adopt(coordinator.producer_id, coordinator.epoch)
        for number in range(5):
            assert coordinator.add("t", 0) == [NONE]
            assert leader.produce("t", b"%d" % number).error_code == NONE
            assert coordinator.commit() == NONE
    assert broker.broker.metrics.requests_late == 0


def test_a_request_of_an_older_epoch_is_fenced_and_not_called_late(
    broker: BrokerInThread, producer: WireProducer
) -> None:
    producer.write("t", b"v")
    zombie = producer.end_request(commit=True)
    old = producer.reconnect()
    assert producer.init() == NONE
    producer.write("t", b"v")
    assert producer.commit() == NONE
    assert old.call("end_txn", 4, zombie).error_code == PRODUCER_FENCED
    assert broker.broker.metrics.requests_late == 0


def test_tv2_needs_no_such_rule_and_has_none(broker: BrokerInThread, client: RawClient) -> None:
    """One producer id may write over many connections, in any order."""
    with WireProducer(broker, "b", TV2) as producer:
        producer.init()
        producer.write("t", b"first")
        late = frame("end_txn", 5, producer.end_request(commit=True))
        late_write = frame("produce", 12, producer.produce_request("t", [b"x"], sequence=1))
        old = producer.reconnect()
        assert producer.commit() == NONE
        producer.write("t", b"second")
        old.send(late + late_write)
        assert answer_to(old, "end_txn", 5).error_code == PRODUCER_FENCED
        assert answer_to(old, "produce", 12).responses[0].partition_responses[0].error_code != NONE
        newest, producer.client = producer.client, old
        assert producer.produce("t", b"third").error_code == NONE
        producer.client = newest
        assert producer.abort() == NONE
    assert fetch(client, "t").committed_values == [b"first"]
    assert broker.broker.metrics.requests_late == 0

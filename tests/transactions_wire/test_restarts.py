"""A broker that is killed loses nothing; one that lost power refuses what it may have lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.testing import Broker
from support.kafka_codes import NONE, PRODUCER_FENCED, TRANSACTION_ABORTABLE, UNKNOWN_PRODUCER_ID
from support.power_loss import SLOW_FLUSH, Disk
from support.raw_client import RawClient, produce_values
from support.transactional_wire import (
    READ_COMMITTED,
    TV1,
    TV2,
    Versions,
    WireProducer,
    committed_offset,
    fetch,
    list_offset,
)

SMALL = {"journal.segment.bytes": 8 * 2**20}
"""Copies are then made quickly."""


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "data")


@pytest.fixture
def broker(disk: Disk) -> Iterator[Broker]:
    with Broker(data=disk.folder, settings={**SLOW_FLUSH, **SMALL}) as broker:
        with RawClient(broker) as client:
            client.create_topic("t", 2)
            client.create_group_topic()
        yield broker


@pytest.fixture
def producer(broker: Broker, versions: Versions) -> Iterator[WireProducer]:
    with WireProducer(broker, "a", versions) as producer:
        assert producer.init() == NONE
        yield producer


def abortable(versions: Versions) -> int:
    return TRANSACTION_ABORTABLE if versions is TV2 else UNKNOWN_PRODUCER_ID


def commit_offset(producer: WireProducer, offset: int) -> list[int]:
    if producer.versions is TV1 and (code := producer.add_offsets("g")) != NONE:
        return [code]
    return producer.commit_offsets("g", {("t", 0): offset})


def shown(broker: Broker, partition: int = 0) -> list[bytes | None]:
    with RawClient(broker) as client:
        return fetch(client, "t", partition=partition).committed_values


def test_a_transaction_goes_on_after_a_kill_in_any_step(
    broker: Broker, producer: WireProducer
) -> None:
    def kill() -> None:
        broker.kill()
        broker.start()
        producer.reconnect()

    kill()
    producer.write("t", b"a")
    kill()
    producer.write("t", b"b", partition=1)
    kill()
    assert commit_offset(producer, 7) == [NONE]
    kill()
    assert shown(broker) == []
    assert producer.commit() == NONE
    kill()
    assert shown(broker) == [b"a"]
    assert shown(broker, 1) == [b"b"]
    with RawClient(broker) as client:
        assert committed_offset(client, "g", "t", require_stable=True) == (7, NONE)


def test_a_retry_across_a_kill_is_stored_once(broker: Broker, producer: WireProducer) -> None:
    producer.write("t", b"a")
    broker.kill()
    broker.start()
    producer.reconnect()
    retried = producer.produce("t", b"a", sequence=0)
    assert (retried.error_code, retried.base_offset) == (NONE, 0)
    again = producer.end_request(commit=True)
    assert producer.commit() == NONE
    broker.kill()
    broker.start()
    old = producer.reconnect()
    assert old.receive() is None
    answer = producer.client.call("end_txn", producer.versions.end, again)
    assert answer.error_code == NONE
    assert shown(broker) == [b"a"]


def test_a_new_incarnation_after_a_kill_rolls_back_what_was_open(
    broker: Broker, producer: WireProducer
) -> None:
    producer.write("t", b"open")
    assert commit_offset(producer, 5) == [NONE]
    broker.kill()
    broker.start()
    with WireProducer(broker, "a", producer.versions) as heir, RawClient(broker) as client:
        assert heir.init() == NONE
        assert committed_offset(client, "g", "t", require_stable=True) == (-1, NONE)
        assert list_offset(client, "t", READ_COMMITTED) == 2
        assert shown(broker) == []


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "kept"])
def test_rule_3_after_a_power_loss_an_open_transaction_can_only_be_aborted(
    broker: Broker, producer: WireProducer, disk: Disk, versions: Versions, lost: bool
) -> None:
    disk.remember()
    producer.write("t", b"open")
    assert commit_offset(producer, 5) == [NONE]
    disk.lose_power(broker, everything_unsynced=lost)
    producer.reconnect()
    assert producer.produce("t", b"more").error_code == abortable(versions)
    assert commit_offset(producer, 6) == [abortable(versions)]
    # Only TV1 clients add partitions by a request of its own.
    assert producer.add("t", 1) == [UNKNOWN_PRODUCER_ID]
    assert producer.commit() == abortable(versions)
    assert shown(broker) == []
    with RawClient(broker) as client:
        assert committed_offset(client, "g", "t", require_stable=True) == (-1, NONE)
        assert list_offset(client, "t", READ_COMMITTED) == (0 if lost else 2)
    assert producer.abort() == NONE
    if versions is TV1:
        # An abort issues no epoch, so that the old one stays refused.
        assert producer.add("t", 0) != [NONE]
        assert producer.init(named=True) == NONE
    producer.write("t", b"next")
    assert producer.commit() == NONE
    assert shown(broker) == [b"next"]


def test_who_comes_back_under_a_spent_epoch_after_it_was_told_is_fenced(
    broker: Broker, disk: Disk
) -> None:
    """Not every client asks for a new epoch when it should; else it would be refused for ever."""
    with WireProducer(broker, "a", TV1) as producer:
        assert producer.init() == NONE
        disk.lose_power(broker)
        producer.reconnect()
        assert producer.add("t", 0) == [UNKNOWN_PRODUCER_ID]
        # The other kind is one that it has not been told of.
        assert producer.add_offsets("g") == UNKNOWN_PRODUCER_ID
        assert producer.add_offsets("g") == PRODUCER_FENCED
        # What came on another connection may be repeated because its reply was lost.
        producer.reconnect()
        assert producer.add("t", 0) == [UNKNOWN_PRODUCER_ID]
        assert producer.abort() == NONE
        assert producer.add("t", 1) == [PRODUCER_FENCED]
        assert producer.init(named=True) == NONE
        producer.write("t", b"next")
        assert producer.commit() == NONE
    assert shown(broker) == [b"next"]


def test_a_commit_that_was_answered_survives_a_power_loss_and_so_does_its_retry(
    broker: Broker, producer: WireProducer, disk: Disk, versions: Versions
) -> None:
    producer.write("t", b"a")
    assert commit_offset(producer, 5) == [NONE]
    again = producer.end_request(commit=True)
    assert producer.commit() == NONE
    disk.remember()
    producer.write("t", b"lost")
    disk.lose_power(broker)
    producer.reconnect()
    assert shown(broker) == [b"a"]
    with RawClient(broker) as client:
        assert committed_offset(client, "g", "t") == (5, NONE)
    answer = producer.client.call("end_txn", versions.end, again)
    # Under TV1 it may as well be the commit of the transaction that was lost.
    assert answer.error_code == (NONE if versions is TV2 else PRODUCER_FENCED)
    assert shown(broker) == [b"a"]


def test_a_commit_that_was_lost_before_its_answer_is_never_claimed(
    broker: Broker, producer: WireProducer, disk: Disk, versions: Versions
) -> None:
    """The reply did not reach the client, and the frame not the disk; then the client retries."""
    producer.write("t", b"a")
    disk.remember()
    again = producer.end_request(commit=True)
    assert producer.commit() == NONE
    disk.lose_power(broker)
    producer.reconnect()
    answer = producer.client.call("end_txn", versions.end, again)
    assert answer.error_code == abortable(versions)
    assert shown(broker) == []


def test_a_newcomer_on_the_id_goes_on_at_once_after_a_power_loss(
    broker: Broker, producer: WireProducer, disk: Disk, versions: Versions
) -> None:
    disk.remember()
    producer.write("t", b"lost")
    disk.lose_power(broker)
    with WireProducer(broker, "a", versions) as heir:
        assert heir.init() == NONE
        assert heir.epoch > producer.epoch
        heir.write("t", b"new")
        assert heir.commit() == NONE
    producer.reconnect()
    assert producer.commit() == PRODUCER_FENCED
    assert shown(broker) == [b"new"]


def test_producer_ids_are_never_given_twice_across_restarts(broker: Broker, disk: Disk) -> None:
    given = []
    for number in range(3):
        for transactional_id in (f"id-{number}", f"other-{number}"):
            with WireProducer(broker, transactional_id) as producer:
                producer.init()
                given.append(producer.producer_id)
        disk.remember()
        if number == 0:
            broker.kill()
            broker.start()
        else:
            disk.lose_power(broker)
    assert len(set(given)) == len(given)


def test_a_stable_offset_that_deleted_records_have_moved_is_found_after_a_restart(
    broker: Broker, producer: WireProducer
) -> None:
    with RawClient(broker) as client:
        producer.write("t", b"0")
        produce_values(client, "t", [b"1"])
        produce_values(client, "t", [b"2", b"3"])
        assert client.delete_records("t", 2) == 2
    for stop in (broker.kill, broker.stop):
        stop()
        broker.start()
        with RawClient(broker) as client:
            assert fetch(client, "t", 2).last_stable_offset == 2
            assert list_offset(client, "t", READ_COMMITTED) == 2
    producer.reconnect()
    assert producer.abort() == NONE
    with RawClient(broker) as client:
        found = fetch(client, "t", 2)
    assert found.aborted == [(producer.producer_id, 0)]
    assert found.committed_values == [b"2", b"3"]

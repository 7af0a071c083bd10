"""Transactions of the producer against Semel brokers, in both dialects of the protocol."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import semel
from semel.client.connecting import connection
from semel.client.outcome import MustAbort, MustStop, OutcomeUnknown
from semel.client.producing import coordination
from semel.client.producing.blocking import BlockingSent
from semel.client.producing.coordination import GroupMetadata
from semel.client.producing.transactions import TransactionAborted
from semel.errors import MessageTooLarge, NotInOrder, ProducerFenced
from semel.testing import Broker
from semel.types import TopicPartition
from support.power_loss import SLOW_FLUSH, Disk
from support.stored import group_offsets, numbers

SETTINGS = {"num.partitions": 1, "message.max.bytes": 100_000}


@pytest.fixture(params=["implicit", "explicit"], autouse=True)
def dialect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Explicit is what a client speaks where the cluster has not agreed on version 2."""
    name: str = request.param
    if name == "explicit":
        for module in (connection, coordination):
            monkeypatch.setattr(module, "IMPLICIT_PARTITIONS", 99)
    return name


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings=SETTINGS) as running:
        yield running


def committed(broker: Broker, topic: str) -> list[int]:
    return numbers(broker, topic, is_committed_only=True)[0]


def transact(producer: semel.Producer, topic: str, *values: bytes) -> None:
    with producer.transaction():
        for value in values:
            producer.send(topic, value)


def test_a_transaction_commits_at_its_end_over_several_topics(broker: Broker, dialect: str) -> None:
    one, two = f"one-{dialect}", f"two-{dialect}"
    with semel.Producer(broker.bootstrap_servers, transactional_id=f"both-{dialect}") as producer:
        for number in range(5):
            with producer.transaction():
                producer.send(one, key="key", value=str(number))
                producer.send(two, key="key", value=str(number))
    assert committed(broker, one) == committed(broker, two) == [0, 1, 2, 3, 4]


def test_an_exception_aborts_and_passes_through(broker: Broker, dialect: str) -> None:
    topic = f"aborted-{dialect}"
    with semel.Producer(
        broker.bootstrap_servers, transactional_id=topic, linger_ms=60_000
    ) as producer:

        def transact(number: int, *, is_sent: bool, is_kept: bool) -> BlockingSent:
            with suppress(KeyError), producer.transaction():
                sent = producer.send(topic, str(number))
                if is_sent:
                    producer.flush()
                if not is_kept:
                    raise KeyError(number)
            return sent

        for number in range(0, 30, 3):
            transact(number, is_sent=False, is_kept=True)
            stored = transact(number + 1, is_sent=True, is_kept=False)
            assert stored.exception() is None
            unsent = transact(number + 2, is_sent=False, is_kept=False)
            assert isinstance(unsent.exception(), TransactionAborted)
    assert committed(broker, topic) == list(range(0, 30, 3))


def test_an_empty_transaction_costs_nothing(broker: Broker, dialect: str) -> None:
    with semel.Producer(broker.bootstrap_servers, transactional_id=f"empty-{dialect}") as producer:
        with producer.transaction():
            pass
        producer.begin_transaction()
        producer.abort_transaction()
        with pytest.raises(NotInOrder):
            producer.commit_transaction()
        with pytest.raises(NotInOrder):
            producer.send("outside", b"x")


def test_offsets_belong_to_the_transaction(broker: Broker, dialect: str) -> None:
    topic, group = f"offsets-{dialect}", f"group-{dialect}"
    place = TopicPartition(topic, 0)
    with semel.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"1")
            producer.send_offsets_to_transaction({place: 7}, group)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({place: 9}, GroupMetadata(group))
        producer.abort_transaction()
    assert group_offsets(broker, group) == {place: 7}


def test_a_member_of_an_old_generation_must_abort(broker: Broker, dialect: str) -> None:
    topic = f"generations-{dialect}"
    with semel.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        old = GroupMetadata(f"none-{dialect}", generation_id=5, member_id="gone")
        producer.begin_transaction()
        producer.send(topic, b"1")
        with pytest.raises(MustAbort):
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, old)
        with pytest.raises(MustAbort):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"2")
    assert committed(broker, topic) == [2]


def test_an_older_producer_is_fenced(broker: Broker, dialect: str) -> None:
    topic = f"fenced-{dialect}"
    with semel.Producer(broker.bootstrap_servers, transactional_id=topic) as older:
        older.begin_transaction()
        older.send(topic, b"1")
        older.flush()
        with semel.Producer(broker.bootstrap_servers, transactional_id=topic) as newer:
            with newer.transaction():
                newer.send(topic, b"2")
            with pytest.raises(MustStop):
                older.commit_transaction()
            with pytest.raises(MustStop):
                older.begin_transaction()
            with newer.transaction():
                newer.send(topic, b"3")
    assert committed(broker, topic) == [2, 3]


def test_a_block_of_an_older_producer_says_that_it_must_stop(broker: Broker, dialect: str) -> None:
    topic = f"outdated-{dialect}"
    servers = broker.bootstrap_servers
    with (
        semel.Producer(servers, transactional_id=topic) as older,
        semel.Producer(servers, transactional_id=topic) as newer,
    ):
        transact(older, topic, b"1")
        transact(newer, topic, b"2")
        with pytest.raises(MustStop) as caught:
            transact(older, topic, b"3")
        assert isinstance(caught.value.__cause__, ProducerFenced)

        async def work() -> None:
            async with semel.AsyncProducer(servers, transactional_id=topic) as oldest:
                await oldest.init_transactions()
                transact(newest, topic, b"4")
                async with oldest.transaction():
                    await oldest.send(topic, b"5")

        with (
            semel.Producer(servers, transactional_id=topic) as newest,
            pytest.raises(MustStop),
        ):
            asyncio.run(work())
    assert committed(broker, topic) == [1, 2, 4]


def test_a_refused_record_dooms_its_transaction_and_not_the_next(
    broker: Broker, dialect: str
) -> None:
    topic = f"doomed-{dialect}"
    with semel.Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        with pytest.raises(MustAbort) as caught:
            transact(producer, topic, b"1", b"x" * 200_000)
        assert isinstance(caught.value.__cause__, MessageTooLarge)
        with producer.transaction():
            producer.send(topic, b"2")
    assert committed(broker, topic) == [2]


def test_the_asynchronous_face_has_transactions_too(broker: Broker, dialect: str) -> None:
    topic = f"async-{dialect}"

    async def work() -> None:
        async with semel.AsyncProducer(
            broker.bootstrap_servers, transactional_id=topic
        ) as producer:
            async with producer.transaction():
                await producer.send(topic, b"1")
            with suppress(KeyError):
                async with producer.transaction():
                    await producer.send(topic, b"2")
                    raise KeyError
            async with producer.transaction():
                await producer.send(topic, b"3")
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 2}, topic)
            await producer.begin_transaction()
            await producer.send(topic, b"4")

    asyncio.run(work())
    assert committed(broker, topic) == [1, 3]
    assert group_offsets(broker, topic) == {TopicPartition(topic, 0): 2}


def test_an_interrupted_commit_is_aborted_or_asked_for_again(tmp_path: Path) -> None:
    async def interrupted(work: Coroutine[Any, Any, None]) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, 0.2)

    async def work(broker: Broker) -> None:
        async with semel.AsyncProducer(broker.bootstrap_servers, transactional_id="id") as producer:
            async with producer.transaction():
                await producer.send("t", b"1")
            await producer.begin_transaction()
            await producer.send("t", b"2")
            broker.pause()
            await interrupted(producer.commit_transaction())
            broker.resume()
            with pytest.raises(MustAbort):
                await producer.commit_transaction()
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send("t", b"3")
            await producer.flush()
            broker.pause()
            await interrupted(producer.commit_transaction())
            broker.resume()
            with pytest.raises(OutcomeUnknown):
                await producer.abort_transaction()
            await producer.commit_transaction()

    with Broker(data=tmp_path / "data", settings=SETTINGS) as broker:
        asyncio.run(work(broker))
        assert committed(broker, "t") == [1, 3]


def test_a_transaction_goes_on_over_the_kill_of_its_broker(tmp_path: Path) -> None:
    with (
        Broker(data=tmp_path / "data", settings=SETTINGS) as broker,
        semel.Producer(broker.bootstrap_servers, transactional_id="id") as producer,
    ):
        for number in range(6):
            with producer.transaction():
                producer.send("t", str(10 * number))
                if number % 3 == 1:
                    producer.flush()
                if number % 3:
                    broker.kill()
                    broker.start()
                producer.send("t", str(10 * number + 1))
        expected = [10 * number + second for number in range(6) for second in (0, 1)]
        assert committed(broker, "t") == expected


def test_a_commit_in_doubt_is_settled_by_asking_again(tmp_path: Path) -> None:
    with (
        Broker(data=tmp_path / "data", settings=SETTINGS) as broker,
        semel.Producer(
            broker.bootstrap_servers, transactional_id="id", block_timeout_ms=300
        ) as producer,
    ):
        producer.begin_transaction()
        producer.send("t", b"1")
        producer.flush()
        broker.kill()
        with pytest.raises(OutcomeUnknown):
            producer.commit_transaction()
        with pytest.raises(OutcomeUnknown):
            producer.abort_transaction()
        broker.start()
        producer.commit_transaction()
        with producer.transaction():
            producer.send("t", b"2")
        assert committed(broker, "t") == [1, 2]


def test_after_a_power_loss_the_transaction_is_aborted_and_the_next_one_is_not(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path / "data")
    settings = {**SETTINGS, **SLOW_FLUSH}
    with (
        Broker(data=disk.folder, settings=settings) as broker,
        semel.Producer(broker.bootstrap_servers, transactional_id="id") as producer,
    ):
        with producer.transaction():
            producer.send("t", b"1")
        disk.remember()
        producer.begin_transaction()
        producer.send("t", b"2")
        producer.flush()
        disk.lose_power(broker)
        producer.send("t", b"3")
        with pytest.raises(MustAbort):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"4")
        assert committed(broker, "t") == [1, 4]


def test_a_fenced_producer_is_told_what_may_have_fenced_it(broker: Broker, dialect: str) -> None:
    name, servers = f"told-{dialect}", broker.bootstrap_servers
    with semel.Producer(servers, transactional_id=name) as fenced:
        transact(fenced, name, b"0")
        with semel.Producer(servers, transactional_id=name) as successor:
            transact(successor, name, b"1")
        with pytest.raises(MustStop, match="a newer producer has its id, or its transaction outl"):
            transact(fenced, name, b"2")

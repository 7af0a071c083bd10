"""Both faces of the producer against a Semel broker."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest

import semel
from semel.client.producing.sent import Delivered
from semel.errors import (
    ConfigError,
    MessageTooLarge,
    NotInOrder,
    RequestTimedOut,
    SemelError,
    UnknownTopicOrPartition,
)
from semel.records.records import Record
from semel.security import Sasl, Security
from semel.testing import Broker
from support.secured_server import PASSWORD, USER, secured_server
from support.stored import numbers, stored


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 3, "message.max.bytes": 100_000}) as running:
        yield running


def test_a_record_comes_back_as_it_was_sent(broker: Broker) -> None:
    with semel.Producer(broker.bootstrap_servers) as producer:
        sent = producer.send(
            "whole", key="k", value="v", headers={"h": "1", "n": None}, timestamp_ms=5, partition=2
        )
        assert sent.result(30) == Delivered("whole", 2, 0, 5)
    assert stored(broker, "whole")[2] == [Record(b"k", b"v", 5, (("h", b"1"), ("n", None)), 0)]


def test_the_asynchronous_face_does_the_same(broker: Broker) -> None:
    async def work() -> None:
        async with semel.AsyncProducer(broker.bootstrap_servers) as producer:
            first = await producer.send("async", b"1", partition=1)
            second = await producer.send("async", b"2", partition=1)
            assert (await second).offset == 1
            assert first.done()
            assert (await first).offset == 0

    asyncio.run(work())
    assert numbers(broker, "async")[1] == [1, 2]


def test_large_and_strange_records_keep_their_bytes(broker: Broker) -> None:
    values = [None, b"", b"x" * 50_000, b"y" * 5_000]
    with semel.Producer(broker.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send("strange", value, partition=0, timestamp_ms=10_000_000 * (2 - number))
    records = stored(broker, "strange")[0]
    assert [record.value for record in records] == values
    assert [record.timestamp_ms for record in records] == [20_000_000, 10_000_000, 0, -10_000_000]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed(broker: Broker, compression: str) -> None:
    topic = f"packed-{compression}"
    with semel.Producer(broker.bootstrap_servers, compression=compression) as producer:
        for number in range(200):
            producer.send(topic, str(number), partition=0)
    assert numbers(broker, topic)[0] == list(range(200))


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_what_was_sent_is_stored_when_the_producer_is_closed(
    broker: Broker, acks: int | str
) -> None:
    topic = f"acks-{acks}"
    with semel.Producer(broker.bootstrap_servers, acks=acks, linger_ms=1_000) as producer:
        for number in range(100):
            producer.send(topic, str(number), partition=0)
    assert numbers(broker, topic)[0] == list(range(100))


def test_serializers_make_bytes_of_anything(broker: Broker) -> None:
    with semel.Producer(
        broker.bootstrap_servers, value_serializer=lambda value: json.dumps(value).encode()
    ) as producer:
        producer.send("json", {"a": 1}, partition=0)
    assert stored(broker, "json")[0][0].value == b'{"a": 1}'
    with (
        semel.Producer(broker.bootstrap_servers) as producer,
        pytest.raises(TypeError, match="serializer"),
    ):
        producer.send("json", object())


def test_what_a_serializer_returns_is_bytes_or_text(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    with semel.Producer(servers, value_serializer=json.dumps) as producer:
        producer.send("text", {"ä": 1}, key=b"k", partition=0)
    assert stored(broker, "text")[0][0].value == b'{"\\u00e4": 1}'
    with (
        semel.Producer(servers, key_serializer=hash) as producer,  # type: ignore[arg-type]
        pytest.raises(TypeError, match="key_serializer returned int, and not bytes or str"),
    ):
        producer.send("text", key=1)


def test_records_go_where_their_key_the_turn_or_a_function_says(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    with semel.Producer(servers) as producer:
        by_key = {producer.send("keys", key=str(n)).result(30).partition for n in (1, 1, 1)}
        all_keys = [producer.send("keys", key=str(n)) for n in range(40)]
        assert len(by_key) == 1
        assert {sent.result(30).partition for sent in all_keys} == {0, 1, 2}
        keyless = [producer.send("sticky", b"x") for _ in range(10)]
        assert len({sent.result(30).partition for sent in keyless}) == 1
    with semel.Producer(servers, partitioner="round_robin") as producer:
        turns = [producer.send("turns", b"x") for _ in range(6)]
        assert sorted(sent.result(30).partition for sent in turns) == [0, 0, 1, 1, 2, 2]
    with semel.Producer(servers, partitioner=lambda topic, key, count: count - 1) as producer:
        assert producer.send("function", b"x").result(30).partition == 2


def test_callbacks_are_called_once_with_the_outcome(broker: Broker) -> None:
    called: list[int] = []
    enough = threading.Event()
    with semel.Producer(broker.bootstrap_servers) as producer:
        sent = producer.send("calls", b"x", partition=0, on_delivery=lambda sent: called.append(1))
        sent.result(30)
        sent.add_done_callback(lambda sent: called.append(sent.outcome().offset))
        sent.add_done_callback(lambda sent: enough.set())
        assert enough.wait(30)
    assert called == [1, 0]


def test_a_record_that_is_too_large_fails_and_others_do_not(broker: Broker) -> None:
    with semel.Producer(broker.bootstrap_servers) as producer:
        good = producer.send("large", b"1", partition=0)
        good.result(30)
        bad = producer.send("large", b"x" * 200_000, partition=0)
        later = producer.send("large", b"2", partition=0)
        with pytest.raises(MessageTooLarge):
            bad.result(30)
        later.result(30)
        assert isinstance(bad.exception(), MessageTooLarge)
    assert numbers(broker, "large")[0] == [1, 2]


def test_memory_is_bounded_by_waiting(broker: Broker) -> None:
    count = 3_000
    with semel.Producer(
        broker.bootstrap_servers, buffered_size_max=20_000, linger_ms=10_000
    ) as producer:
        for number in range(count):
            producer.send("bounded", str(number), partition=0)
    assert numbers(broker, "bounded")[0] == list(range(count))


def test_several_threads_may_send(broker: Broker) -> None:
    with semel.Producer(broker.bootstrap_servers) as producer:

        def send(partition: int) -> None:
            for number in range(2_000):
                producer.send("threads", str(number), partition=partition)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert numbers(broker, "threads") == [list(range(2_000))] * 3


def test_mistakes_are_named(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    with semel.Producer(servers) as producer:
        with pytest.raises(UnknownTopicOrPartition, match="no partition 7"):
            producer.send("mistakes", b"x", partition=7)
        with pytest.raises(ValueError, match="no time at all"):
            producer.send("mistakes", b"x", timestamp_ms=2**63)
        with pytest.raises(TypeError, match="name of a header is a str, not int"):
            producer.send("mistakes", b"x", headers=[(1, b"")])  # type: ignore[list-item]
        with pytest.raises(NotInOrder, match="transactional_id"):
            producer.begin_transaction()
    with pytest.raises(SemelError, match="closed"):
        producer.send("mistakes", b"x")
    producer.close()
    for options, message in [
        ({"acks": 1, "enable_idempotence": True}, "acks=all"),
        ({"acks": "some"}, "acks"),
        ({"compression": "zip"}, "zip"),
        ({"partitioner": "magic"}, "magic"),
        ({"compresion": "zstd"}, "no producer option 'compresion'; did you mean 'compression'"),
        ({"in_flight_max": 6}, "in_flight_max"),
        ({"transactional_id": ""}, "transactional id"),
    ]:
        with pytest.raises(ConfigError, match=message):
            semel.Producer(servers, **options)  # type: ignore[arg-type]


def test_without_a_broker_a_producer_gives_up_in_time() -> None:
    with (
        Broker() as gone,
        semel.Producer(
            gone.bootstrap_servers, delivery_timeout_ms=300, block_timeout_ms=300
        ) as producer,
    ):
        producer.send("t", b"x").result(30)
        gone.kill()
        with pytest.raises(RequestTimedOut):
            producer.send("t", b"x").result(30)
        with pytest.raises(SemelError):
            producer.send("unknown", b"x")


def test_a_callback_that_would_wait_for_itself_is_refused(broker: Broker) -> None:
    outcomes: list[object] = []
    done = threading.Event()

    def wait(_: object) -> None:
        try:
            producer.flush()
        except NotInOrder as error:
            outcomes.append(error)
        done.set()

    with semel.Producer(broker.bootstrap_servers) as producer:
        producer.send("calls", b"x", on_delivery=wait)
        assert done.wait(30)
    assert len(outcomes) == 1


@pytest.mark.parametrize("password", [PASSWORD, "wrong"])
def test_a_producer_signs_in(password: str) -> None:
    security = Security(sasl=Sasl("PLAIN", USER, password))

    async def work() -> str:
        async with (
            secured_server(has_tls=False, mechanism="PLAIN") as address,
            semel.AsyncProducer(str(address), security=security, block_timeout_ms=100) as producer,
        ):
            # The server knows how to sign in, and nothing of topics.
            with pytest.raises(SemelError) as caught:
                await producer.send("t", b"x")
            return type(caught.value).__name__

    is_refused = asyncio.run(work()) == "SaslAuthenticationFailed"
    assert is_refused is (password == "wrong")

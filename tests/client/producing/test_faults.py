"""A fault of our own ends the producer, and everybody who waits is told."""

import asyncio

import pytest

import semel
from semel.client.producing import requests
from semel.client.producing.core import ProducerCore
from semel.errors import SemelError
from semel.testing import Broker


def broken(*_: object) -> object:
    raise ZeroDivisionError("a fault")


@pytest.mark.parametrize("place", [(ProducerCore, "answered"), (requests, "to_wire")])
def test_a_fault_in_the_producers_thread_is_shown_when_it_is_closed(
    semel_broker: Broker, monkeypatch: pytest.MonkeyPatch, place: tuple[object, str]
) -> None:
    producer = semel.Producer(semel_broker.bootstrap_servers)
    monkeypatch.setattr(*place, broken)
    sent = producer.send("faults", b"x")
    with pytest.raises(SemelError, match="closed"):
        sent.result(30)
    with pytest.raises(SemelError):
        producer.send("faults", b"x")
    with pytest.raises(ExceptionGroup) as caught:
        producer.close()
    assert caught.group_contains(ZeroDivisionError)


def test_a_fault_in_time_keeping_is_one_too(
    semel_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        producer = semel.AsyncProducer(semel_broker.bootstrap_servers)
        await producer.start()
        await (await producer.send("faults", b"x"))
        sent = await producer.send("faults", b"x")
        monkeypatch.setattr(ProducerCore, "drain", broken)
        with pytest.raises(SemelError, match="closed"):
            await sent
        with pytest.raises(ExceptionGroup) as caught:
            await producer.close()
        assert caught.group_contains(ZeroDivisionError)

    asyncio.run(work())


def test_no_record_is_taken_after_the_end(semel_broker: Broker) -> None:
    def end_and_serialize(value: bytes) -> bytes:
        if value == b"late":
            producer.close()
        return value

    producer = semel.Producer(semel_broker.bootstrap_servers, value_serializer=end_and_serialize)
    producer.send("faults", b"x").result(30)
    with pytest.raises(SemelError, match="closed"):
        producer.send("faults", b"late")

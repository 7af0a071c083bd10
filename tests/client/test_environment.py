"""Whoever is given no servers goes to those that the environment names."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import semel
from semel.client.connecting import address
from semel.client.connecting.address import BOOTSTRAP_SERVERS_VARIABLE
from semel.errors import NetworkException
from semel.testing import Broker
from support import topics

TOPIC = "of-the-environment"


@pytest.fixture(autouse=True)
def environment(semel_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOTSTRAP_SERVERS_VARIABLE, semel_broker.bootstrap_servers)


def produce() -> None:
    with semel.Producer() as producer:
        producer.send(TOPIC, b"by Producer").result(60)


def consume() -> None:
    with semel.Consumer(group="of-the-environment") as consumer:
        consumer.subscribe([TOPIC])
        assert next(iter(consumer)).topic == TOPIC


def write() -> None:
    semel.write(TOPIC, {"value": [b"by write"]})
    assert semel.read(TOPIC).num_rows > 0


def run_application() -> None:
    app = semel.App()

    @app.listener(TOPIC, group="of-the-environment-too")
    def see(record: semel.Record) -> None:
        pass

    assert app.run_until_idle()["see"].records > 0


async def produce_on_loop() -> None:
    async with semel.AsyncProducer() as producer:
        await (await producer.send(TOPIC, b"by AsyncProducer"))


async def consume_on_loop() -> None:
    async with semel.AsyncConsumer(group="of-the-environment-on-loop") as consumer:
        await consumer.subscribe([TOPIC])
        assert (await anext(aiter(consumer))).topic == TOPIC


@pytest.mark.parametrize("use", [produce, consume, write, run_application])
def test_what_blocks_reads_the_environment(semel_broker: Broker, use: Callable[[], None]) -> None:
    topics.fill(semel_broker.bootstrap_servers, TOPIC, [b"something to read"])
    use()


@pytest.mark.parametrize("use", [produce_on_loop, consume_on_loop])
def test_what_does_not_block_reads_the_environment(
    semel_broker: Broker, use: Callable[[], Awaitable[None]]
) -> None:
    topics.fill(semel_broker.bootstrap_servers, TOPIC, [b"something to read"])

    async def within_a_minute() -> None:
        async with asyncio.timeout(60):
            await use()

    asyncio.run(within_a_minute())


def test_the_variable_is_named_when_nobody_listens_at_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(BOOTSTRAP_SERVERS_VARIABLE)
    # Nobody can listen there, unlike at the port that brokers have by default.
    monkeypatch.setattr(address, "BOOTSTRAP_SERVERS_DEFAULT", "127.0.0.1:1")
    with (
        pytest.raises(NetworkException, match=BOOTSTRAP_SERVERS_VARIABLE),
        semel.Producer(block_timeout_ms=1) as producer,
    ):
        producer.send(TOPIC, b"to nobody")

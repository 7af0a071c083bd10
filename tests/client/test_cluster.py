"""Which of several servers a client begins with."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from semel.client.cluster.cluster import Cluster
from semel.client.connecting.address import Address, parse_bootstrap_servers
from semel.errors import NetworkException
from semel.testing import Broker


class OddServer:
    """Takes every connection, and then says what it is told to say, or nothing at all."""

    def __init__(self, greeting: bytes = b"") -> None:
        self._greeting = greeting
        self._server: asyncio.Server | None = None
        self._over = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "OddServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._over.set()
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    @property
    def address(self) -> Address:
        assert self._server is not None
        return Address(*self._server.sockets[0].getsockname())

    @property
    def connection_count(self) -> int:
        return len(self._writers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        writer.write(self._greeting)
        await self._over.wait()


NOT_OF_THIS_PROTOCOL = b"\x7f\xff\xff\xff"
"""A size that no reply has."""


@pytest.mark.parametrize("greeting", [b"", NOT_OF_THIS_PROTOCOL], ids=["silent", "strange"])
def test_a_server_that_is_no_use_is_left_for_the_next_one(
    semel_broker: Broker, greeting: bytes
) -> None:
    (good,) = parse_bootstrap_servers(semel_broker.bootstrap_servers)

    async def scenario() -> None:
        async with (
            OddServer(greeting) as odd,
            Cluster([odd.address, good], connect_timeout_ms=1_000) as cluster,
        ):
            assert good in (await cluster.describe(())).brokers.values()

    asyncio.run(scenario())


def test_a_server_that_takes_connections_and_says_nothing_is_not_waited_for(
    semel_broker: Broker,
) -> None:
    """It would never answer, and neither time is ever over here."""
    (good,) = parse_bootstrap_servers(semel_broker.bootstrap_servers)
    never_ms = 10**9

    async def scenario() -> None:
        async with (
            OddServer() as frozen,
            Cluster(
                [frozen.address, good], timeout_ms=never_ms, connect_timeout_ms=never_ms
            ) as cluster,
        ):
            assert good in (await cluster.describe(())).brokers.values()

    asyncio.run(scenario())


def test_a_server_that_did_not_answer_is_not_asked_before_the_one_that_did(tmp_path: Path) -> None:
    async def scenario(broker: Broker) -> None:
        (good,) = parse_bootstrap_servers(broker.bootstrap_servers)
        async with (
            OddServer() as odd,
            Cluster([odd.address, good], connect_timeout_ms=1_000) as cluster,
        ):
            await asyncio.gather(*(cluster.describe(()) for _ in range(3)))
            for _ in range(2):
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
                await cluster.retry(lambda: cluster.describe(()))
            assert odd.connection_count == 1

    with Broker(data=tmp_path / "data") as broker:
        asyncio.run(scenario(broker))


def test_who_finds_no_server_is_told_what_is_wrong_with_each() -> None:
    async def scenario() -> None:
        async with OddServer() as silent, OddServer(NOT_OF_THIS_PROTOCOL) as strange:
            cluster = Cluster([silent.address, strange.address], connect_timeout_ms=1_000)
            with pytest.raises(NetworkException, match=f"{silent.address} did.*{strange.address}"):
                await cluster.describe(())

    asyncio.run(scenario())

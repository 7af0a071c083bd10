"""A consumer that never gets to its brokers says so; one that did waits for them."""

import asyncio
import socket
from contextlib import suppress

import pytest

from semel import AsyncConsumer
from semel.client.consuming.reach import Reach
from semel.client.consuming.settings import ConsumerOptions
from semel.errors import NetworkException, NotCoordinator, RequestError, SemelError
from semel.testing import Broker
from semel.types import TopicPartition

IMPATIENT: ConsumerOptions = {
    "request_timeout_ms": 100,
    "block_timeout_ms": 300,
    "allow_auto_create_topics": True,
}


@pytest.fixture
def nowhere() -> str:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


async def is_told(servers: str, *, is_member: bool, times: int = 1) -> None:
    async with AsyncConsumer(servers, "readers" if is_member else None, **IMPATIENT) as consumer:
        if is_member:
            await consumer.subscribe("t")
        else:
            consumer.assign([TopicPartition("t", 0)])
        for _ in range(times):
            with pytest.raises(NetworkException, match="cannot be reached: connection refused"):
                await consumer.poll(60_000)


@pytest.mark.parametrize("is_member", [False, True])
def test_who_asks_where_nobody_is_hears_so_from_poll_more_than_once(
    nowhere: str, is_member: bool
) -> None:
    asyncio.run(is_told(nowhere, is_member=is_member, times=2))


@pytest.mark.parametrize("is_member", [False, True])
def test_who_is_sent_where_nobody_is_hears_so_from_poll(nowhere: str, is_member: bool) -> None:
    with Broker(arguments=["--advertise", nowhere]) as broker:
        asyncio.run(is_told(broker.bootstrap_servers, is_member=is_member))


def attempts(outcomes: list[RequestError | None], timeout_ms: int = 0) -> list[SemelError]:
    """What is reported of attempts that end so, one after the other."""
    reported: list[SemelError] = []

    async def work() -> None:
        reach = Reach(timeout_ms, reported.append)
        for outcome in outcomes:
            with suppress(RequestError), reach.attempt():
                if outcome is not None:
                    raise outcome

    asyncio.run(work())
    return reported


def test_only_who_was_never_reached_is_missed() -> None:
    away = [NetworkException(), NetworkException()]
    assert attempts([*away]) == away
    assert attempts([away[0], None, away[1]]) == away[:1]
    # A refusal is an answer.
    assert attempts([NotCoordinator(), *away]) == []
    assert attempts([*away], timeout_ms=1_000_000) == []

"""A link over a transport by script: what its callers are told when the broker misbehaves."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any

import pytest

from semel.client.connecting.address import Address
from semel.client.connecting.link import Link
from semel.client.connecting.session import Session
from semel.errors import NetworkException, RequestTimedOut
from semel.security import Sasl
from semel.types import Buffer
from semel.wire.messages import api_versions
from support.seeded_loop import elapse, run

ADDRESS = Address("broker", 9092)
REQUEST = api_versions.ApiVersionsRequest("semel", "0")
TIMEOUT_MS = 30_000
EMPTY_REPLY = b"\x00\x00\x00\x0c" + bytes(6) + b"\x01" + bytes(5)
"""To the first request: no error, no APIs."""


class Wire(asyncio.Transport):
    """Takes everything, and tells of nothing but its own end."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link
        self.written: list[bytes] = []
        self.is_stuck = False
        """Whether nothing that was written leaves, so that it cannot be closed either."""
        self._is_closing = False
        link.connection_made(self)

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def writelines(self, parts: Iterable[Buffer]) -> None:
        self.write(b"".join(parts))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        if not self.is_stuck:
            self.abort()

    def abort(self) -> None:
        self._is_closing = True
        asyncio.get_running_loop().call_soon(self._link.connection_lost, None)

    def get_stuck(self) -> None:
        self.is_stuck = True
        self._link.pause_writing()


def receive(link: Link, content: bytes) -> None:
    link.get_buffer(-1)[: len(content)] = content
    link.buffer_updated(len(content))


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xff\xff\xff\xff",
        # A reply to a request that was never sent, and one whose message is cut.
        b"\x00\x00\x00\x04\x00\x00\x00\x07",
        b"\x00\x00\x00\x05\x00\x00\x00\x00\x00",
    ],
)
def test_nonsense_is_the_loss_of_the_link(nonsense: bytes) -> None:
    async def work() -> None:
        link = Link(ADDRESS, "test")
        Wire(link)
        pending = [await link.ask(api_versions, REQUEST, TIMEOUT_MS) for _ in range(2)]
        receive(link, nonsense)
        for each in pending:
            with pytest.raises(NetworkException, match="broker:9092: "):
                await each.reply(TIMEOUT_MS)
        assert not link.is_open
        with pytest.raises(NetworkException):
            await link.ask(api_versions, REQUEST, TIMEOUT_MS)

    run(Random(1), work())


@pytest.mark.parametrize("send", [Link.ask, Link.tell])
def test_a_broker_that_takes_nothing_loses_its_link(send: Callable[..., Awaitable[object]]) -> None:
    async def work() -> None:
        link = Link(ADDRESS, "test")
        wire = Wire(link)
        wire.get_stuck()
        with pytest.raises(RequestTimedOut, match=f"takes nothing for {TIMEOUT_MS} ms"):
            await send(link, api_versions, REQUEST, TIMEOUT_MS)
        assert wire.written == []
        await link.close()
        assert not link.is_open

    run(Random(1), work())


def test_a_request_goes_out_once_there_is_room_for_it() -> None:
    async def work() -> None:
        link = Link(ADDRESS, "test")
        wire = Wire(link)
        wire.get_stuck()
        telling = asyncio.get_running_loop().create_task(
            link.tell(api_versions, REQUEST, TIMEOUT_MS)
        )
        await elapse(TIMEOUT_MS / 2000)
        link.resume_writing()
        await telling
        assert len(wire.written) == 1

    run(Random(1), work())


def test_a_link_whose_last_bytes_do_not_leave_is_closed_all_the_same() -> None:
    async def work() -> None:
        link = Link(ADDRESS, "test")
        wire = Wire(link)
        await link.tell(api_versions, REQUEST, TIMEOUT_MS)
        wire.get_stuck()
        await link.close()
        assert not link.is_open

    run(Random(1), work())


def test_an_interrupted_wait_can_be_taken_up_again() -> None:
    async def work() -> None:
        link = Link(ADDRESS, "test")
        Wire(link)
        pending = await link.ask(api_versions, REQUEST, TIMEOUT_MS)
        waiting = asyncio.get_running_loop().create_task(pending.reply(TIMEOUT_MS))
        await elapse(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        receive(link, EMPTY_REPLY)
        assert (await pending.reply(TIMEOUT_MS)).api_keys == []

    run(Random(1), work())


def test_a_settled_reply_is_interrupted_once_it_is_there() -> None:
    async def work() -> None:
        link = Link(ADDRESS, "test")
        Wire(link)
        pending = await link.ask(api_versions, REQUEST, TIMEOUT_MS)
        waiting = asyncio.get_running_loop().create_task(pending.settled_reply(TIMEOUT_MS))
        await elapse(1)
        waiting.cancel()
        await elapse(1)
        assert not waiting.done()
        receive(link, EMPTY_REPLY)
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    run(Random(1), work())


@pytest.mark.timeout(20)
def test_a_link_that_is_lost_when_its_session_is_due_fails_who_waits_for_room() -> None:
    async def work() -> None:
        link = Link(ADDRESS, "test")
        wire = Wire(link)
        link._session = Session(Sasl("PLAIN", "ann", "secret"), renewed_at_s=10.0)
        wire.get_stuck()
        asking = asyncio.ensure_future(link.ask(api_versions, REQUEST, TIMEOUT_MS))
        await elapse(11)
        assert not asking.done()
        wire.abort()
        with pytest.raises(NetworkException, match="closed"):
            await asking

    run(Random(1), work())

"""A link over a transport by script: what its callers are told when the broker misbehaves."""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from semel.client.address import Address
from semel.client.link import Link
from semel.errors import NetworkException
from semel.types import Buffer
from semel.wire.messages import api_versions
from support.seeded_loop import run

ADDRESS = Address("broker", 9092)
REQUEST = api_versions.ApiVersionsRequest("semel", "0")
TIMEOUT_MS = 30_000


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
        pending = [await link.ask(api_versions, REQUEST) for _ in range(2)]
        receive(link, nonsense)
        for each in pending:
            with pytest.raises(NetworkException, match="broker:9092: "):
                await each.reply(TIMEOUT_MS)
        assert not link.is_open
        with pytest.raises(NetworkException):
            await link.ask(api_versions, REQUEST)

    run(Random(1), work())

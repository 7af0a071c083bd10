"""The driver's end of turns: a port at which the tasks of one micro-batch ask for theirs.

Each line is a word in JSON. The first one of a task is `Hello`, the others are its moves, and what
it is sent are answers. A task that goes away, or whose line is not as it should be, leaves.
"""

import asyncio
import hmac
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from semel.errors import ConfigError, ProtocolError
from semel.spark.query import DriverEnd
from semel.spark.turns import Answers, Asker, Attempt, Counts, Move, Turns
from semel.world import SystemRandomness

_SECRET_SIZE = 16
_KEEP_ALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class Address(NamedTuple):
    """Where turns are asked for, and what shows that one may."""

    host: str
    port: int
    secret: str


class Hello(msgspec.Struct, frozen=True):
    secret: str
    attempt: Attempt


_encode = msgspec.json.encode
_decode_hello = msgspec.json.Decoder(Hello).decode
_decode_move = msgspec.json.Decoder(Move).decode


class TurnService:
    def __init__(self) -> None:
        self._secret = SystemRandomness().token_bytes(_SECRET_SIZE).hex()
        self._turns = Turns()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._writers: dict[Asker, asyncio.StreamWriter] = {}

    async def open(self, at: DriverEnd) -> Address:
        try:
            # One address, as a port is free at one of them and may be taken at another.
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(at.bind_host, 0, type=socket.SOCK_STREAM)
            self._server = await self._listen(str(found[0][4][0]), at.ports)
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {at.bind_host}, where spark.driver.bindAddress or "
                f"spark.driver.host says that the driver is: {error}"
            ) from error
        return Address(at.host, self._server.sockets[0].getsockname()[1], self._secret)

    async def _listen(self, host: str, ports: Sequence[int]) -> asyncio.Server:
        *others, last = ports
        for port in others:
            with suppress(OSError):
                return await asyncio.start_server(self._serve, host, port)
        return await asyncio.start_server(self._serve, host, last)

    async def close(self) -> None:
        """Nothing that comes from now on counts."""
        assert self._server is not None, "it was opened"
        self._say_all(self._turns.end("the driver has ended this batch"))
        self._server.close()
        for writer in self._open:
            writer.close()

    def check(self, written: Mapping[Attempt, Counts]) -> None:
        """Whether what was written is what these attempts say, and no one else has written."""
        self._turns.check(written)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        keep_alive(writer)
        self._open.add(writer)
        try:
            with suppress(OSError, ValueError, msgspec.MsgspecError):
                hello = _decode_hello(await reader.readline())
                if hmac.compare_digest(hello.secret.encode(), self._secret.encode()):
                    await self._serve_asker(reader, writer, hello.attempt)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _serve_asker(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, attempt: Attempt
    ) -> None:
        asker = self._turns.join(attempt)
        self._writers[asker] = writer
        try:
            with suppress(ProtocolError):
                while line := await reader.readline():
                    self._say_all(self._turns.step(asker, _decode_move(line)))
        finally:
            del self._writers[asker]
            self._say_all(self._turns.leave(asker))

    def _say_all(self, answers: Answers) -> None:
        for asker, answer in answers:
            self._writers[asker].write(_encode(answer) + b"\n")


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Notice within a minute that the other machine is gone without a word."""
    connected = writer.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

"""The driver's side of turns: a port at which the tasks of one micro-batch ask for theirs.

A task that goes away leaves, and so does one that says what cannot be said.
"""

import asyncio
import hmac
import logging
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from semel.errors import ConfigError, ProtocolError
from semel.spark.turn_messages import TurnAddress, hear_hello, hear_move, keep_alive, say
from semel.spark.turns import Answers, Asker, Attempt, Counts, PartitionTurns
from semel.world import SystemRandomness

_log = logging.getLogger(__name__)

_SECRET_SIZE = 16


class DriverAddress(NamedTuple):
    """Where executors reach the driver."""

    host: str
    """The name by which they know its machine."""
    bind_host: str
    ports: Sequence[int]
    """In the order in which they are tried; 0 is any free one."""


class TurnService:
    def __init__(self) -> None:
        self._secret = SystemRandomness().token_bytes(_SECRET_SIZE).hex()
        self._turns = PartitionTurns()
        self._server: asyncio.Server | None = None
        self._is_closed = False
        self._open: set[asyncio.StreamWriter] = set()
        self._streams: dict[Asker, asyncio.StreamWriter] = {}

    async def open(self, at: DriverAddress) -> TurnAddress:
        try:
            # One address, as a port is free at one of them and may be taken at another.
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(at.bind_host, 0, type=socket.SOCK_STREAM)
            self._server = await self._listen(str(found[0][4][0]), at.ports)
        except OSError as error:
            first, last = at.ports[0], at.ports[-1]
            tried = f", ports {first} to {last} (driver_port, spark.port.maxRetries)" * bool(first)
            raise ConfigError(
                f"cannot listen at {at.bind_host}{tried}, where spark.driver.bindAddress or "
                f"spark.driver.host says that the driver is: {error}"
            ) from error
        return TurnAddress(at.host, self._server.sockets[0].getsockname()[1], self._secret)

    async def _listen(self, host: str, ports: Sequence[int]) -> asyncio.Server:
        *others, last = ports
        for port in others:
            with suppress(OSError):
                return await asyncio.start_server(self._serve, host, port)
        return await asyncio.start_server(self._serve, host, last)

    async def close(self) -> None:
        """Nothing that comes from now on counts."""
        assert self._server is not None, "it was opened"
        self._is_closed = True
        self._say_all(self._turns.end("the driver has ended this batch"))
        self._server.close()
        for writer in self._open:
            writer.close()

    def check(self, written: Mapping[Attempt, Counts]) -> None:
        """Whether what was written is what these attempts say, and no one else has written."""
        self._turns.check(written)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if self._is_closed:  # It was accepted just before.
                return
            keep_alive(writer)
            hello = await hear_hello(reader)
            if hello and hmac.compare_digest(hello.secret.encode(), self._secret.encode()):
                await self._serve_asker(reader, writer, hello.attempt)
        except ProtocolError as error:
            _log.warning("a connection that asks for turns is closed: %s", error)
        except OSError:
            pass  # It is gone, and has left its turns.
        finally:
            self._open.discard(writer)
            writer.close()

    async def _serve_asker(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, attempt: Attempt
    ) -> None:
        asker = self._turns.join(attempt)
        self._streams[asker] = writer
        try:
            while move := await hear_move(reader):
                self._say_all(self._turns.step(asker, move))
        finally:
            del self._streams[asker]
            self._say_all(self._turns.leave(asker))

    def _say_all(self, answers: Answers) -> None:
        for asker, answer in answers:
            say(self._streams[asker], answer)

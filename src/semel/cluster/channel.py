"""A connection to another node; here calls are answered one after the other."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, Self

import msgspec

from semel.cluster import messages
from semel.cluster.messages import AnyAnswer, AnyRequest
from semel.cluster.session import NONCE_SIZE, Session, WrongCode
from semel.errors import SemelError
from semel.lane.leader import NodeAddress
from semel.security import Security, tls_context
from semel.wire.apis import NODE_CALL, NODE_CHALLENGE, Api
from semel.world import Randomness

ANSWER_SIZE_MAX: Final = 16 << 20
CLIENT_ID: Final = b"semel-node"
_HEADER: Final = struct.Struct(">ihhih")
_SIZE: Final = struct.Struct(">i")
_CORRELATION: Final = struct.Struct(">i")


class NodeAway(SemelError):
    """A node does not answer, or what answers there is none of this cluster."""


class Reader(Protocol):
    async def readexactly(self, size: int, /) -> bytes: ...


class Writer(Protocol):
    def write(self, data: bytes, /) -> None: ...

    def close(self) -> None: ...


Connect = Callable[[str, int], Awaitable[tuple[Reader, Writer]]]
"""To a host and a port. May raise OSError."""


async def connect(host: str, port: int) -> tuple[Reader, Writer]:
    return await asyncio.open_connection(host, port)


def connecting(security: Security) -> Connect:
    """Over TLS, if that is said. Nobody signs in: the cluster's key proves more. Raises
    ConfigError."""
    if security.tls is None:
        return connect
    context = tls_context(security.tls)

    async def connect_over_tls(host: str, port: int) -> tuple[Reader, Writer]:
        return await asyncio.open_connection(host, port, ssl=context)

    return connect_over_tls


class Channel:
    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._session: Session

    @classmethod
    async def open(
        cls,
        connect: Connect,
        host: str,
        port: int,
        key: bytes,
        randomness: Randomness,
        patience_s: float,
    ) -> Self:
        """Raises NodeAway."""
        try:
            async with asyncio.timeout(patience_s):
                channel = cls(*await connect(host, port))
                try:
                    nonce = randomness.token_bytes(NONCE_SIZE)
                    answered = await channel._exchange(NODE_CHALLENGE, nonce)
                    channel._session = Session(key, nonce, answered)
                except BaseException:
                    # Also if whoever asked waits no longer.
                    channel.close()
                    raise
                return channel
        except (OSError, EOFError, ValueError, WrongCode) as error:
            is_refused = isinstance(error, ConnectionRefusedError)
            reason = "connection refused" if is_refused else error or "in time"
            raise NodeAway(f"{host}:{port} does not answer: {reason}") from error

    async def ask(self, request: AnyRequest, patience_s: float) -> AnyAnswer:
        """Raises NodeAway; nothing more can be asked then."""
        try:
            async with asyncio.timeout(patience_s):
                signed = self._session.sign_call(messages.encode(request))
                answered = await self._exchange(NODE_CALL, signed)
            return messages.decode_answer(self._session.open_answer(answered))
        except (OSError, EOFError, ValueError, WrongCode, msgspec.DecodeError) as error:
            self.close()
            raise NodeAway(f"it does not answer: {error or 'in time'}") from error

    def close(self) -> None:
        self._writer.close()

    # For who does not wait for one answer before the next call.

    def signed(self, request: AnyRequest) -> bytes:
        """The bytes of this call. Calls are written in the order in which they are signed."""
        return _framed(NODE_CALL, self._session.sign_call(messages.encode(request)))

    def write(self, said: bytes) -> None:
        self._writer.write(said)

    async def next_answer(self) -> AnyAnswer:
        """Raises NodeAway."""
        try:
            answered = self._session.open_answer(await self._read())
            return messages.decode_answer(answered)
        except (OSError, EOFError, ValueError, WrongCode, msgspec.DecodeError) as error:
            raise NodeAway(f"it does not answer: {error or 'the connection has ended'}") from error

    async def _exchange(self, api: Api, body: bytes) -> bytes:
        self._writer.write(_framed(api, body))
        return await self._read()

    async def _read(self) -> bytes:
        (answer_size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
        if not _CORRELATION.size <= answer_size <= ANSWER_SIZE_MAX:
            raise ValueError(f"an answer of {answer_size} bytes")
        return (await self._reader.readexactly(answer_size))[_CORRELATION.size :]


def _framed(api: Api, body: bytes) -> bytes:
    size = _HEADER.size - _SIZE.size + len(CLIENT_ID) + len(body)
    return _HEADER.pack(size, api.key, api.version_max, 1, len(CLIENT_ID)) + CLIENT_ID + body


Reach = Callable[[NodeAddress], Awaitable[Channel]]
"""Opens a channel to another node. Raises NodeAway."""

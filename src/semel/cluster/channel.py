"""A connection to another node; here calls are answered one after the other."""

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, Self, cast

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


NAMED: Final = "@"
"""In place of the byte by which a socket of this machine has a name that is no file's."""


def named(name: bytes) -> str:
    """The host at which such a socket is found."""
    return NAMED + name[1:].decode("ascii")


class Wire(Protocol):
    """A connection, as who has opened it sees it."""

    def write(self, data: bytes, /) -> None: ...

    @property
    def may_place(self) -> bool:
        """Whether what is written now may be there at once: to be asked before it is signed, as
        what is signed has to be written."""

    def place(self, data: bytes, /) -> bool:
        """Write it; whether the other end surely has it before anything that is said later over
        another connection."""

    def close(self) -> None: ...


Received = Callable[[bytes], None]
Ended = Callable[[], None]

Connect = Callable[[str, int, Received, Ended], Awaitable[Wire]]
"""To a host and a port; who is told what comes, and that nothing more does. May raise OSError."""


class _Socket(asyncio.Protocol):
    def __init__(self, received: Received, ended: Ended) -> None:
        self._received = received
        self._ended = ended
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connected = transport.get_extra_info("socket")
        self._is_on_machine = connected is not None and connected.family == socket.AF_UNIX

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._ended()

    def write(self, data: bytes, /) -> None:
        self._transport.write(data)

    @property
    def may_place(self) -> bool:
        return self._is_on_machine and not self._transport.get_write_buffer_size()

    def place(self, data: bytes, /) -> bool:
        self._transport.write(data)
        return not self._transport.get_write_buffer_size()

    def close(self) -> None:
        self._transport.close()


async def connect(
    host: str, port: int, received: Received, ended: Ended, tls: ssl.SSLContext | None = None
) -> Wire:
    loop = asyncio.get_running_loop()

    def protocol() -> _Socket:
        return _Socket(received, ended)

    if host.startswith(NAMED):
        _, wire = await loop.create_unix_connection(protocol, "\0" + host.removeprefix(NAMED))
    else:
        _, wire = await loop.create_connection(protocol, host, port, ssl=tls)
    return wire


def connecting(security: Security) -> Connect:
    """Over TLS, if that is said. Nobody signs in: the cluster's key proves more. Raises
    ConfigError."""
    if security.tls is None:
        return connect
    return partial(connect, tls=tls_context(security.tls))


class Channel:
    def __init__(self) -> None:
        self._wire: Wire
        self._session: Session
        self._received = b""
        """Of an answer that is not there whole."""
        self._answers: deque[bytes] = deque()
        """That nobody has waited for."""
        self._waiting: asyncio.Future[bytes] | None = None
        self._hear: Callable[[bytes], None] = self._answered
        self._end: Callable[[str], None] = self._ended
        self._why_ended = ""

    @classmethod
    async def open(
        cls,
        connect: Connect,
        host: str,
        port: int,
        key: bytes,
        randomness: Randomness,
        patience_s: float,
        *,
        stays_on_machine: bool = False,
    ) -> Self:
        """Raises NodeAway."""
        try:
            async with asyncio.timeout(patience_s):
                channel = cls()
                channel._wire = await connect(host, port, channel._receive, channel._lost)
                try:
                    nonce = randomness.token_bytes(NONCE_SIZE)
                    answered = await channel._exchange(NODE_CHALLENGE, nonce)
                    channel._session = Session(
                        key, nonce, answered, stays_on_machine=stays_on_machine
                    )
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
        self._wire.close()

    # For who does not wait for one answer before the next call.

    def hear(self, hear: Callable[[AnyAnswer], None], end: Callable[[str], None]) -> None:
        """Tell of all answers from here on, and why there are no more."""

        def opened(signed: bytes) -> None:
            try:
                answer = messages.decode_answer(self._session.open_answer(signed))
            except (WrongCode, msgspec.DecodeError) as error:
                self._fail(str(error))
            else:
                hear(answer)

        self._hear, self._end = opened, end
        if self._why_ended:
            end(self._why_ended)

    def signed(self, request: AnyRequest) -> bytes:
        """The bytes of this call. Calls are written in the order in which they are signed."""
        return _framed(NODE_CALL, self._session.sign_call(messages.encode(request)))

    def write(self, said: bytes) -> None:
        self._wire.write(said)

    @property
    def may_place(self) -> bool:
        """As `Wire.may_place`."""
        return self._wire.may_place

    def place(self, said: bytes) -> bool:
        """As `Wire.place`."""
        return self._wire.place(said)

    async def _exchange(self, api: Api, body: bytes) -> bytes:
        """Raises EOFError or ValueError."""
        self._wire.write(_framed(api, body))
        if self._answers:
            return self._answers.popleft()
        if self._why_ended:
            raise EOFError(self._why_ended)
        self._waiting = asyncio.get_running_loop().create_future()
        return await self._waiting

    # What comes

    def _receive(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        begin, end = 0, len(received)
        while end - begin >= _SIZE.size and not self._why_ended:
            (size,) = _SIZE.unpack_from(received, begin)
            if not _CORRELATION.size <= size <= ANSWER_SIZE_MAX:
                self._fail(f"an answer of {size} bytes")
                return
            next_begin = begin + _SIZE.size + size
            if next_begin > end:
                break
            self._hear(received[begin + _SIZE.size + _CORRELATION.size : next_begin])
            begin = next_begin
        self._received = received[begin:]

    def _answered(self, signed: bytes) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(signed)
        else:
            self._answers.append(signed)

    def _lost(self) -> None:
        self._fail("the connection has ended")

    def _fail(self, why: str) -> None:
        if not self._why_ended:
            self._why_ended = why
            self._end(why)

    def _ended(self, why: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(EOFError(why))


def _framed(api: Api, body: bytes) -> bytes:
    size = _HEADER.size - _SIZE.size + len(CLIENT_ID) + len(body)
    return _HEADER.pack(size, api.key, api.version_max, 1, len(CLIENT_ID)) + CLIENT_ID + body


Reach = Callable[[NodeAddress], Awaitable[Channel]]
"""Opens a channel to another node. Raises NodeAway."""

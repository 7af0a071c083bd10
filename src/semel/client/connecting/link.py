"""One TCP connection to one broker: any number of requests in flight, replies in order."""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from semel.client.cluster.calls import raise_for
from semel.client.connecting.address import Address
from semel.client.connecting.connection import Connection, Messages
from semel.client.connecting.sasl import exchange
from semel.client.security import PLAINTEXT, Sasl, Security, tls_context
from semel.errors import (
    NetworkException,
    ProtocolError,
    RequestError,
    RequestTimedOut,
    SaslAuthenticationFailed,
    UnsupportedVersion,
)
from semel.types import Buffer
from semel.wire.messages import api_versions, sasl_authenticate, sasl_handshake
from semel.world import SystemRandomness

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")

_COPIED_SIZE_MAX = 64 * 1024
_NONCE_SIZE = 16
_CLOSE_MS_MAX = 5_000


class Link(asyncio.BufferedProtocol):
    """Use `open_link` to make one."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._connection = Connection(client_id)
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def awaited_count(self) -> int:
        """Replies that have not come."""
        return len(self._replies)

    @property
    def transaction_version(self) -> int:
        return self._connection.transaction_version

    def version_of(self, messages: Messages[Any, Any]) -> int:
        return self._connection.version_of(messages.API_KEY)

    async def call(
        self, messages: Messages[_Request, _Reply], request: _Request, timeout_ms: int
    ) -> _Reply:
        """The reply; the link is closed if it does not come in time, as nothing behind it will."""
        return await (await self.ask(messages, request, timeout_ms)).reply(timeout_ms)

    async def ask(
        self, messages: Messages[_Request, _Reply], request: _Request, timeout_ms: int
    ) -> "Pending[_Reply]":
        """Send once there is room for it; the reply may be waited for later."""
        await self._room(timeout_ms)
        correlation_id = self._send(messages, request, has_reply=True)
        reply: asyncio.Future[_Reply] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(_note_as_seen)
        self._replies[correlation_id] = reply
        return Pending(self, reply)

    async def tell(
        self, messages: Messages[_Request, Any], request: _Request, timeout_ms: int
    ) -> None:
        """Send a request that gets no reply, once there is room for it."""
        await self._room(timeout_ms)
        self._send(messages, request, has_reply=False)

    async def _room(self, timeout_ms: int) -> None:
        if self._writable.is_set():
            return
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._writable.wait()
        except TimeoutError:
            self.abort()
            raise RequestTimedOut(f"{self.address} takes nothing for {timeout_ms} ms") from None

    def _send(
        self, messages: Messages[_Request, Any], request: _Request, *, has_reply: bool
    ) -> int:
        if self._transport is None or self._transport.is_closing():
            raise NetworkException(f"the connection to {self.address} is closed")
        correlation_id, parts = self._connection.request(messages, request, has_reply=has_reply)
        self._write(self._transport, parts)
        return correlation_id

    def _write(self, transport: asyncio.WriteTransport, parts: Sequence[Buffer]) -> None:
        small: list[Buffer] = []
        for part in parts:
            if len(part) < _COPIED_SIZE_MAX:
                small.append(part)
                continue
            # Joined with others it would be copied before it is sent.
            transport.write(b"".join(small))
            transport.write(part)
            small = []
        if small:
            transport.write(b"".join(small))

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close, and wait until the socket is gone; what was written has a moment to leave."""
        if self._transport is None:
            return
        self._transport.close()
        try:
            async with asyncio.timeout(_CLOSE_MS_MAX / 1000):
                await self._closed.wait()
        except TimeoutError:
            self.abort()
            await self._closed.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._connection.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for correlation_id, message in self._connection.advance(nbytes):
                reply = self._replies.pop(correlation_id, None)
                if reply is not None and not reply.done():
                    reply.set_result(message)
        except ProtocolError as error:
            # For those who wait it is as if it had closed: they may ask again, or another broker.
            self._fail(NetworkException(f"{self.address}: {error}"))
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc else ""
        self._fail(NetworkException(f"{self.address} closed the connection{reason}"))
        self._transport = None
        self._writable.set()
        self._closed.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _fail(self, error: Exception) -> None:
        replies, self._replies = self._replies, {}
        for reply in replies.values():
            if not reply.done():
                reply.set_exception(error)


class Pending(Generic[_Reply]):
    """A request on its way; dropping it leaves its reply unread."""

    def __init__(self, link: Link, reply: asyncio.Future[_Reply]) -> None:
        self._link = link
        self._reply = reply

    async def reply(self, timeout_ms: int) -> _Reply:
        """May be asked for again by whoever was interrupted while waiting."""
        await asyncio.wait((self._reply,), timeout=timeout_ms / 1000)
        if not self._reply.done():
            self._link.abort()
            raise RequestTimedOut(f"{self._link.address} did not answer in {timeout_ms} ms")
        return self._reply.result()

    async def settled_reply(self, timeout_ms: int) -> _Reply:
        """As `reply`, but an interruption waits, too: what follows it comes behind the request."""
        try:
            return await self.reply(timeout_ms)
        except asyncio.CancelledError:
            with suppress(RequestError):
                await self.reply(timeout_ms)
            raise


def _note_as_seen(reply: asyncio.Future[Any]) -> None:
    """A failed request that nobody waits for is not worth a complaint of the loop's."""
    if not reply.cancelled():
        reply.exception()


async def open_link(
    address: Address,
    client_id: str,
    version: str,
    timeout_ms: int,
    security: Security = PLAINTEXT,
) -> Link:
    """Connect, learn which versions the broker knows, and sign in."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            _, link = await loop.create_connection(
                lambda: Link(address, client_id),
                address.host,
                address.port,
                ssl=None if security.tls is None else tls_context(security.tls),
            )
    except TimeoutError:
        raise NetworkException(f"{address} cannot be reached in {timeout_ms} ms") from None
    except ssl.SSLCertVerificationError as error:
        # Kafka has no code for it. It stays as it is, as signing in with a wrong password does.
        raise SaslAuthenticationFailed(
            f"the certificate of {address} is not trusted: {error.verify_message}"
        ) from None
    except OSError as error:
        raise NetworkException(f"{address} cannot be reached: {_in_words(error)}") from None
    request = api_versions.ApiVersionsRequest("semel", version)
    try:
        reply = await link.call(api_versions, request, timeout_ms)
        if reply.error_code == UnsupportedVersion.code:
            # Asked again, in the version that every broker knows.
            reply = await link.call(api_versions, request, timeout_ms)
        raise_for(reply.error_code, f"{address}")
        if security.sasl is not None:
            await _sign_in(link, security.sasl, timeout_ms)
    except BaseException:
        link.abort()
        raise
    return link


async def _sign_in(link: Link, sasl: Sasl, timeout_ms: int) -> None:
    handshake = sasl_handshake.SaslHandshakeRequest(sasl.mechanism)
    offered = await link.call(sasl_handshake, handshake, timeout_ms)
    if offered.error_code:
        mechanisms = ", ".join(offered.mechanisms) or "nothing"
        raise_for(offered.error_code, f"{link.address}", f"{sasl.mechanism}: it has {mechanisms}")
    messages = exchange(sasl, SystemRandomness().token_bytes(_NONCE_SIZE).hex())
    message = next(messages)
    while True:
        request = sasl_authenticate.SaslAuthenticateRequest(message)
        reply = await link.call(sasl_authenticate, request, timeout_ms)
        raise_for(reply.error_code, f"{link.address}", reply.error_message)
        try:
            message = messages.send(bytes(reply.auth_bytes))
        except StopIteration:
            return


def _in_words(error: OSError) -> str:
    # asyncio's own text repeats the address, and lists every address that was tried.
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused"
    return (error.strerror or str(error)).lower()

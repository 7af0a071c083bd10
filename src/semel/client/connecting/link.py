"""One TCP connection to one broker: any number of requests in flight, replies in order.

Who has signed in for a time signs in again before the first request that could come too late
(KIP-368). Nothing else is sent meanwhile, as a broker takes nothing else then.
"""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from semel.client.cluster.calls import raise_for
from semel.client.connecting.address import Address
from semel.client.connecting.connection import Connection, Messages
from semel.client.connecting.session import Session, sign_in
from semel.errors import (
    NetworkException,
    ProtocolError,
    RequestError,
    RequestTimedOut,
    SaslAuthenticationFailed,
    UnsupportedVersion,
)
from semel.security import PLAINTEXT, Sasl, Security, Tls, tls_context
from semel.types import Buffer
from semel.wire.messages import api_versions

_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")

_COPIED_SIZE_MAX = 64 * 1024
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
        self._session: Session | None = None
        self._renewing = asyncio.Lock()
        self._hint = ""
        """What may be the matter if the broker closes the connection now."""

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
        await self._ready(timeout_ms)
        return self._begin(messages, request)

    def _begin(self, messages: Messages[_Request, _Reply], request: _Request) -> "Pending[_Reply]":
        correlation_id = self._send(messages, request, has_reply=True)
        reply: asyncio.Future[_Reply] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(_note_as_seen)
        self._replies[correlation_id] = reply
        return Pending(self, reply)

    async def tell(
        self, messages: Messages[_Request, Any], request: _Request, timeout_ms: int
    ) -> None:
        """Send a request that gets no reply, once there is room for it."""
        await self._ready(timeout_ms)
        self._send(messages, request, has_reply=False)

    async def sign_in(self, sasl: Sasl, timeout_ms: int) -> None:
        """Now, and again whenever the broker's patience with it comes to its end."""

        async def call(messages: Messages[_Request, _Reply], request: _Request) -> _Reply:
            return await self._begin(messages, request).reply(timeout_ms)

        self._session = await sign_in(call, f"{self.address}", sasl)
        self._hint = ""

    async def _ready(self, timeout_ms: int) -> None:
        """Signed in, and with room: asked again until both hold at once, or the link is lost."""
        while self.is_open and (self._is_session_due() or not self._writable.is_set()):
            if self._is_session_due():
                await self._renew_session(timeout_ms)
            else:
                await self._room(timeout_ms)

    def _is_session_due(self) -> bool:
        return self._session is not None and self._session.is_due(asyncio.get_running_loop().time())

    async def _renew_session(self, timeout_ms: int) -> None:
        async with self._renewing:
            if not self._is_session_due() or not self.is_open:
                # Somebody else has, or it was lost meanwhile.
                return
            assert self._session is not None
            try:
                await self.sign_in(self._session.sasl, timeout_ms)
            except BaseException:
                # Half signed in, no request would be taken for what it is.
                self.abort()
                self._session = None
                raise

    async def _room(self, timeout_ms: int) -> None:
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

    def suspect(self, security: Security, *, has_answered: bool = False) -> None:
        """What a broker dislikes that closes the connection without another word."""
        if has_answered:
            wants_name = "; it may want to be signed in to (security.protocol, sasl.mechanism)"
            self._hint = wants_name if security.sasl is None else ""
        elif security.tls is None:
            self._hint = "; it may speak TLS alone there (security.protocol)"
        elif security.tls.certificate_file is None:
            self._hint = "; it may ask for a certificate (ssl.keystore.location)"

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
                self._hint = ""
                if reply is not None and not reply.done():
                    reply.set_result(message)
        except ProtocolError as error:
            # For those who wait it is as if it had closed: they may ask again, or another broker.
            self._fail(NetworkException(f"{self.address}: {error}"))
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc else ""
        self._fail(NetworkException(f"{self.address} closed the connection{reason}{self._hint}"))
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
        hint = "" if security.tls is None else "; does it speak TLS there?"
        raise NetworkException(f"{address} cannot be reached in {timeout_ms} ms{hint}") from None
    except ssl.SSLCertVerificationError as error:
        # Kafka has no code for it. It stays as it is, as signing in with a wrong password does.
        raise SaslAuthenticationFailed(
            f"the certificate of {address} is not trusted: {error.verify_message.rstrip('.')}; "
            "ssl.truststore.location names who may have signed it"
        ) from None
    except OSError as error:
        raise NetworkException(
            f"{address} cannot be reached: {_in_words(error, security.tls)}"
        ) from None
    request = api_versions.ApiVersionsRequest("semel", version)
    try:
        link.suspect(security)
        reply = await link.call(api_versions, request, timeout_ms)
        if reply.error_code == UnsupportedVersion.code:
            # Asked again, in the version that every broker knows.
            reply = await link.call(api_versions, request, timeout_ms)
        raise_for(reply.error_code, f"{address}")
        link.suspect(security, has_answered=True)
        if security.sasl is not None:
            await link.sign_in(security.sasl, timeout_ms)
    except BaseException:
        link.abort()
        raise
    return link


def _in_words(error: OSError, tls: Tls | None) -> str:
    # asyncio's own text repeats the address, and lists every address that was tried.
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused"
    sentence = (error.strerror or str(error)).lower() or "the connection was closed"
    is_of_tls = isinstance(error, ssl.SSLError | ConnectionResetError | ConnectionAbortedError)
    return f"{sentence}; does it speak TLS there?" if tls is not None and is_of_tls else sentence

"""A handshake of TLS that fails says why, as TLS has it.

Since TLS 1.3 clients take a handshake for ended before their certificate was looked at. Without an
alert one that is refused finds its connection closed, and tries again for as long as it may. By
asyncio, and by uvloop, it is closed before the alert has left.
"""

import asyncio
import contextlib
import os
import ssl
from contextvars import ContextVar
from typing import Final

CONNECTED: Final[ContextVar[asyncio.Transport]] = ContextVar("CONNECTED")
"""On which a handshake is to take place. It is said where the transport calls, as uvloop begins the
handshake in the context of that, and asyncio in that of who asks for it."""

_OF_OLD: Final = ("UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER")
"""Who speaks an older TLS is told so. Nobody else is answered at all who does not get to our half
of a handshake: it may be no TLS that they speak."""


class _Handshake(ssl.SSLObject):
    _transport: asyncio.Transport | None = None
    _outgoing: ssl.MemoryBIO
    _has_answered = False

    def begin(self, outgoing: ssl.MemoryBIO) -> None:
        self._outgoing = outgoing
        self._transport = CONNECTED.get(None)

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._has_answered = self._has_answered or self._outgoing.pending > 0
            raise
        except ssl.SSLError as error:
            if self._has_answered or error.reason in _OF_OLD:
                self._tell()
            raise

    def _tell(self) -> None:
        """At once: what a transport still has to write does not outlive the error."""
        if self._transport is None or self._transport.get_write_buffer_size():
            return
        connected = self._transport.get_extra_info("socket")
        if connected is not None:
            with contextlib.suppress(OSError):
                os.write(connected.fileno(), self._outgoing.read())


class AlertingContext(ssl.SSLContext):
    """A TLS context of a server whose alerts leave before the connection ends."""

    sslobject_class = _Handshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _Handshake)
        made.begin(outgoing)
        return made

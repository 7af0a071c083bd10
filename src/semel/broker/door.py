"""What stands between the socket and a connection: whom a proxy brings, and TLS.

Nothing is asked of clients of a plain listener, which do not come through here. Each connection
gets the certificate that counts when it comes.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from semel.access.certificate_names import MappingRules
from semel.access.distinguished_name import distinguished_name, subject_of
from semel.access.origin import written
from semel.access.principal import ANONYMOUS, USER, Caller, Principal
from semel.broker.alerts import CONNECTED
from semel.broker.certificates import Certificates
from semel.broker.listeners import Listener
from semel.broker.proxy_header import ProxyHeader
from semel.broker.reception import Reception, Visit
from semel.broker.sign_in import Desk, SignIn
from semel.broker.tls_writing import write_joined
from semel.errors import ProtocolError

if TYPE_CHECKING:
    from semel.broker.bearer import Keys
    from semel.broker.connection import Connection
    from semel.broker.entrance import Entrance

HANDSHAKE_S: Final = 0.0015
"""What a handshake of TLS takes of the loop, about."""

READ_MAX: Final = 2**14
"""Before a handshake has begun. What is behind it waits in the socket."""

Starting = Coroutine[Any, Any, asyncio.Transport | None]

EARLY_BYTES_MAX: Final = 2**20
"""That came behind the handshake before the connection could take them: of one or two reads."""


class Gate:
    """Of one listener through which nobody comes unasked."""

    def __init__(
        self,
        desk: Desk,
        reception: Reception,
        listener: Listener,
        certificates: Certificates | None,
        keys: "Keys | None",
    ) -> None:
        """Raises ConfigError."""
        self.desk = desk
        self.reception = reception
        self.listener = listener
        self.certificates = certificates
        self.keys = keys
        self.rules = MappingRules.parse(listener.config.ssl_principal_mapping_rules)

    def protocol(self) -> asyncio.BaseProtocol:
        """For whoever connects now."""
        return Door(self)

    def is_proxy(self, host: str) -> bool:
        proxies = self.listener.proxies
        if not proxies or not host:
            # Without an address somebody has gone already.
            return False
        address = ipaddress.ip_address(host.partition("%")[0])
        return any(address in each for each in proxies)

    def entrance(self, visit: Visit, ssl_object: ssl.SSLObject | None) -> "Entrance":
        """Raises ProtocolError if the client's certificate names nobody."""
        if self.listener.protocol.has_sasl:
            has_tls = ssl_object is not None
            return SignIn(self.desk, self.listener, visit, self.keys, has_tls=has_tls)
        principal = ANONYMOUS
        # Empty if nobody has checked it.
        if ssl_object is not None and ssl_object.getpeercert():
            certificate = ssl_object.getpeercert(binary_form=True)
            assert certificate is not None
            name = self.rules.name_of(distinguished_name(subject_of(certificate)))
            if name is None:
                raise ProtocolError("no rule of ssl.principal.mapping.rules fits a certificate")
            principal = Principal(USER, name)
        return Known(self, visit, Caller(principal, self.listener.name, visit.host), ssl_object)


class Known:
    """The entrance of somebody who need not sign in: it is known by then who that is."""

    def __init__(
        self, gate: Gate, visit: Visit, caller: Caller, ssl_object: ssl.SSLObject | None
    ) -> None:
        self._gate = gate
        self._visit = visit
        self._caller = caller
        self._has_tls = ssl_object is not None

    def entered(self, connection: "Connection", transport: asyncio.Transport) -> None:
        self._visit.over()
        if self._has_tls:
            connection.write_parts_by(partial(write_joined, transport))
        connection.admit(self._caller)
        if self._caller.principal != ANONYMOUS:
            self._gate.desk.broker.audit.signed_in(self._caller, "certificate")

    def left(self, connection: "Connection") -> None:
        self._visit.over()


class Door(asyncio.BufferedProtocol):
    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._transport: asyncio.Transport
        self._visit: Visit | None = None
        self._header: ProxyHeader | None = None
        self._read = bytearray()
        """Of a client whose handshake has not begun. By uvloop one read comes before reading can be
        paused."""
        self._host = ""
        self._is_through = self._has_ended = False
        self._waiting: asyncio.Task[None] | None = None
        """For a turn to shake hands."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._host = written(peer[0]) if peer else ""
        if not self._gate.desk.server.lets_come(self._gate.listener.name):
            self._end("too many are connected at this listener, or come at once")
            return
        is_proxy = self._gate.is_proxy(self._host)
        # What a proxy brings is counted for whom it brings.
        visit = self._gate.reception.arrived("" if is_proxy else self._host, self._end)
        if visit is None:
            self._end("too many of one address are signing in")
            return
        self._visit = visit
        if is_proxy:
            self._header = ProxyHeader()
        else:
            self._go_on(visit)

    def connection_lost(self, error: Exception | None) -> None:
        self._wait_no_more()
        if self._visit is not None and not self._is_through:
            self._visit.over()

    def eof_received(self) -> bool:
        return False

    def _end(self, reason: str) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._gate.desk.server.turned_away(f"/{self._host}", reason)
        self._wait_no_more()
        self._transport.abort()

    def _wait_no_more(self) -> None:
        """Law: nobody waits for a turn who is not in the reception. So those who wait are bounded
        as those are who have come, and no turn is for somebody who is gone."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    # Whom a proxy brings

    def get_buffer(self, sizehint: int) -> bytearray:
        if self._header is not None:
            return self._header.buffer()
        self._read = bytearray(READ_MAX)
        return self._read

    def buffer_updated(self, count: int) -> None:
        if self._header is None:
            self._transport.pause_reading()
            self._read = self._read[:count]
            return
        assert self._visit is not None
        try:
            if not self._header.received(count):
                return
            host = self._header.host
        except ProtocolError as error:
            self._end(str(error))
            return
        self._host = host or self._host
        self._header = None
        if self._gate.reception.is_from(self._visit, self._host):
            self._go_on(self._visit)
        else:
            self._end("too many of one address are signing in")

    # TLS

    def _go_on(self, visit: Visit) -> None:
        if not self._gate.desk.broker.metering.lets_in(self._host):
            self._end("too many of one address are connecting")
            return
        # Not before it is known who reads it.
        self._transport.pause_reading()
        certificates = self._gate.certificates
        if certificates is None:
            self._let_through(visit, self._transport, None)
            self._transport.resume_reading()
        else:
            CONNECTED.set(self._transport)
            work = self._shake_hands(visit, certificates.context)
            self._waiting = self._gate.desk.server.start_task(work)

    async def _shake_hands(self, visit: Visit, context: ssl.SSLContext) -> None:
        loop, early = self._gate.reception.loop, Early()
        try:
            await self._gate.desk.handshakes.begin(self._host, HANDSHAKE_S)
            self._waiting = None
            starting = loop.start_tls(
                self._transport,
                early,
                context,
                server_side=True,
                # The visit ends before.
                ssl_handshake_timeout=2 * self._gate.reception.timeout_s,
            )
            secured = await (self._started_late(starting) if self._read else starting)
            if secured is not None and not early.is_lost:
                self._let_through(visit, secured, early)
        except (OSError, ProtocolError) as error:
            self._end(f"no TLS: {getattr(error, 'reason', None) or str(error) or 'it has gone'}")
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self._end("an error of our own")
            self._gate.desk.broker.complain("a handshake failed", error)
        finally:
            if not self._is_through:
                visit.over()

    async def _started_late(self, starting: Starting) -> asyncio.Transport | None:
        """Let TLS begin although bytes of it were read already, behind the header of a proxy."""
        loop = self._gate.reception.loop
        begun = loop.create_task(starting)
        # Behind what that calls as soon as it begins, and before anything else is read.
        loop.call_soon(loop.call_soon, self._hand_over)
        return await begun

    def _hand_over(self) -> None:
        """What was read already to TLS, which has the transport by now."""
        protocol = cast(asyncio.BufferedProtocol, self._transport.get_protocol())
        if protocol is not self and not self._transport.is_closing():
            count = len(self._read)
            memoryview(protocol.get_buffer(count))[:count] = self._read
            protocol.buffer_updated(count)
        self._read = bytearray()

    def _let_through(
        self, visit: Visit, transport: asyncio.Transport, early: "Early | None"
    ) -> None:
        """Raises ProtocolError."""
        said = b"" if early is None else early.taken()
        entrance = self._gate.entrance(visit, transport.get_extra_info("ssl_object"))
        connection = self._gate.desk.broker.connection(self._gate.listener.name, entrance)
        self._is_through = True
        transport.set_protocol(connection)
        if early is not None:
            early.successor = connection
        connection.connection_made(transport)
        position = 0
        while position < len(said) and not connection.is_closing:
            buffer = connection.get_buffer(-1)
            part = said[position : position + len(buffer)]
            buffer[: len(part)] = part
            connection.buffer_updated(len(part))
            position += len(part)


class Early(asyncio.Protocol):
    """Takes what comes right behind a handshake, before it is known to be over."""

    def __init__(self) -> None:
        self._taken = bytearray()
        self.is_lost = False
        self.successor: Connection | None = None

    def data_received(self, data: bytes) -> None:
        if len(self._taken) <= EARLY_BYTES_MAX:
            self._taken += data

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if self.successor is not None:
            # This was under way already.
            self.successor.connection_lost(error)

    def taken(self) -> bytes:
        """Raises ProtocolError if it was too much."""
        if len(self._taken) > EARLY_BYTES_MAX:
            raise ProtocolError("too much is said before it is known by whom")
        return bytes(self._taken)

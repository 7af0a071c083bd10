"""The entrance of nodes: nothing is served there but the calls by which they prove who they are."""

import asyncio
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from semel.access.principal import Caller
from semel.cluster.outbox import Outbox
from semel.errors import ProtocolError
from semel.wire.apis import BETWEEN_NODES, NODE_CALL

if TYPE_CHECKING:
    from semel.broker.connection import Connection
    from semel.broker.server import Server
    from semel.cluster.desk import Desk
    from semel.cluster.session import Session

BETWEEN_WORKERS: Final = "WORKERS"
"""No listener of any setting: on this machine alone, and without TLS."""
_KEYS: Final = tuple(key.to_bytes(2, "big") for key in BETWEEN_NODES)
_CALL: Final = NODE_CALL.key.to_bytes(2, "big")
_HEADER: Final = struct.Struct(">hhih")
_HEAD: Final = struct.Struct(">ii")


Reading = Callable[["Connection", asyncio.Transport], Callable[[], bool] | None]
"""How to read what has arrived on a connection, and was not read yet; None if that is of no use."""


def reading_at_once(
    connection: "Connection", transport: asyncio.Transport
) -> Callable[[], bool] | None:
    """From sockets of this machine, which have what was written to them when that returns."""
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family != socket.AF_UNIX:
        return None
    return partial(connection.read_now, connected.fileno())


def is_between_nodes(frame: bytes) -> bool:
    return frame.startswith(_KEYS)


class OnlyNodes:
    """Of all connections between workers."""

    def __init__(self, server: "Server", reading: Reading = reading_at_once) -> None:
        self._server = server
        self._reading = reading
        self._readers: dict[Connection, Callable[[], bool]] = {}
        server.hear_others = self.hear_all
        self._outboxes: dict[Connection, Outbox] = {}

    def entered(self, connection: "Connection", transport: asyncio.Transport) -> None:
        peer = transport.get_extra_info("peername")
        caller = Caller(listener=BETWEEN_WORKERS, host=peer[0] if peer else "")
        self._outboxes[connection] = Outbox(connection.say)
        read = self._reading(connection, transport)
        if read is not None:
            self._readers[connection] = read
        connection.hold_back(caller, self._dispatch, self._server.request_size_max)

    def left(self, connection: "Connection") -> None:
        del self._outboxes[connection]
        self._readers.pop(connection, None)

    def hear_all(self) -> None:
        """What other workers have placed here before now, such as an outcome that a client has
        heard of, which asks now for what it has written."""
        has_come = False
        for read in tuple(self._readers.values()):
            has_come |= read()
        if has_come:
            # Who has said it is waited for by a client of its own, while this one is served.
            for lane in self._server.led_lanes:
                lane.write()

    def _dispatch(self, frame: bytes, connection: "Connection") -> None:
        if frame.startswith(_CALL) and connection.session is not None:
            self._call(frame, connection)
        elif is_between_nodes(frame):
            self._server.dispatch(frame, connection)
        else:
            connection.close("a client among workers")

    def _call(self, frame: bytes, connection: "Connection") -> None:
        """As `Server.dispatch`, without all that is for clients. Raises ProtocolError."""
        if len(frame) < _HEADER.size:
            raise ProtocolError(f"a call of {len(frame)} bytes has no header")
        *_, client_id_size = _HEADER.unpack_from(frame)
        desk, session = self._server.desk, connection.session
        assert session is not None
        asked = desk.opened(session, frame[_HEADER.size + max(0, client_id_size) :])
        self._server.runs.begin(self._answer(desk, session, asked, connection))

    async def _answer(
        self, desk: "Desk", session: "Session", asked: bytes, connection: "Connection"
    ) -> None:
        try:
            answered = await desk.answered(asked)
            outbox = self._outboxes.get(connection)
            if outbox is not None and answered is not None:
                said = session.sign_answer(answered)
                outbox.say(_HEAD.pack(len(said) + 4, 1) + said)
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self._server.failed(connection, error)

"""The entrance of nodes: nothing is served there but the calls by which they prove who they are."""

import asyncio
from typing import TYPE_CHECKING, Final

from semel.access.principal import Caller
from semel.wire.apis import BETWEEN_NODES

if TYPE_CHECKING:
    from semel.broker.connection import Connection
    from semel.broker.server import Server

BETWEEN_WORKERS: Final = "WORKERS"
"""No listener of any setting: on this machine alone, and without TLS."""
_KEYS: Final = tuple(key.to_bytes(2, "big") for key in BETWEEN_NODES)


def is_between_nodes(frame: bytes) -> bool:
    return frame.startswith(_KEYS)


class OnlyNodes:
    """Of all connections between workers."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    def entered(self, connection: "Connection", transport: asyncio.Transport) -> None:
        peer = transport.get_extra_info("peername")
        caller = Caller(listener=BETWEEN_WORKERS, host=peer[0] if peer else "")
        connection.hold_back(caller, self._dispatch, self._server.request_size_max)

    def left(self, connection: "Connection") -> None:
        """Nothing was taken when it came, so that there is nothing to give back."""

    def _dispatch(self, frame: bytes, connection: "Connection") -> None:
        if is_between_nodes(frame):
            self._server.dispatch(frame, connection)
        else:
            connection.close("a client among workers")

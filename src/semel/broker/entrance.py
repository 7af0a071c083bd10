"""What a client passes before its requests are decided, where a listener asks who it is."""

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from semel.broker.connection import Connection


class Entrance(Protocol):
    """Of one connection."""

    def entered(self, connection: "Connection", transport: asyncio.Transport) -> None:
        """Admits the caller, or holds the connection back until it can."""

    def left(self, connection: "Connection") -> None:
        """The connection has ended, admitted or not."""

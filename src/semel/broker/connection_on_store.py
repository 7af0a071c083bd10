"""A connection to a broker whose journal may fall far behind, as a store takes its time or is away.

A producer is not let in while so much waits for the store that it would soon be refused: refused,
it would send all of it again and again. It is not read from, as where the disk is slow.
"""

from typing import TYPE_CHECKING, Final

from semel.access.principal import FIRST_LISTENER
from semel.broker.connection import Connection

if TYPE_CHECKING:
    from semel.broker.entrance import Entrance
    from semel.broker.server import Server

PRODUCE: Final = b"\0\0"
"""A request begins with the key of its API."""


class ConnectionOnStore(Connection):
    def __init__(
        self,
        server: "Server",
        listener: str = FIRST_LISTENER,
        entrance: "Entrance | None" = None,
    ) -> None:
        super().__init__(server, listener, entrance)
        self._is_held = False
        """It hears when a lane has caught up."""

    def _decide(self) -> None:
        """Looks once for all that has come: of one read, which is not much."""
        lane = self._server.lane_behind()
        if lane is not None and not self._is_held and self._has_produce():
            self._is_held = True
            self.hold()
            lane.when_caught_up(self._go_on)
        super()._decide()

    def _has_produce(self) -> bool:
        return any(request.startswith(PRODUCE) for request in self._requests)

    def _go_on(self) -> None:
        if self._is_held:
            self._is_held = False
            self.take_back_hold()

    def lane_left(self) -> None:
        self._go_on()

"""A connection to a broker whose journal may fall far behind, as a store takes its time or is away.

A producer is not let in while so much waits for the store that it would soon be refused: refused,
it would send all of it again and again. It is not read from, as where the disk is slow.
"""

from typing import TYPE_CHECKING, Final

from semel.broker.connection import Connection

if TYPE_CHECKING:
    from semel.broker.server import Server

PRODUCE: Final = b"\0\0"
"""A request begins with the key of its API."""


class ConnectionOnStore(Connection):
    def __init__(self, server: "Server") -> None:
        super().__init__(server)
        self._is_held = False
        """It hears when a lane has caught up."""

    def _is_keeping_up(self) -> bool:
        return super()._is_keeping_up() and not self._has_to_wait()

    def _has_to_wait(self) -> bool:
        requests = self._requests
        if not requests or requests[0][: len(PRODUCE)] != PRODUCE:
            return False
        lane = self._server.lane_behind()
        if lane is None:
            return False
        if not self._is_held:
            self._is_held = True
            lane.when_caught_up(self._go_on)
        return True

    def _go_on(self) -> None:
        self._is_held = False
        if not self.is_closing:
            self._decide()

    def lane_left(self) -> None:
        if self._is_held:
            self._go_on()

"""A connection from one simulated node to another, as who has called sees it."""

from semel.cluster.channel import Ended, Received
from semel.verify.world.loop import Process
from semel.verify.world.network import Host, Network


class LineBetween:
    def __init__(
        self,
        network: Network,
        caller: Process,
        called: Host,
        received: Received,
        ended: Ended,
        *,
        is_on_machine: bool = False,
    ) -> None:
        """Raises ConnectionRefusedError. What was written can be read at once by who is on the same
        machine, and reads it by itself as late as others."""
        self._is_on_machine = is_on_machine
        self._wire = network.connect(caller, called, received, ended)

    def write(self, data: bytes, /) -> None:
        self._wire.to_broker.write(data)

    @property
    def may_place(self) -> bool:
        return self._is_on_machine

    def place(self, data: bytes, /) -> bool:
        self._wire.to_broker.write(data)
        return True

    def close(self) -> None:
        self._wire.to_broker.end()

"""A connection from one simulated node to another, as who has called sees it."""

from semel.cluster.channel import Ended, Received
from semel.verify.world.loop import Process
from semel.verify.world.network import Host, Network


class LineBetween:
    def __init__(
        self, network: Network, caller: Process, called: Host, received: Received, ended: Ended
    ) -> None:
        """Raises ConnectionRefusedError."""
        self._wire = network.connect(caller, called, received, ended)

    def write(self, data: bytes, /) -> None:
        self._wire.to_broker.write(data)

    def close(self) -> None:
        self._wire.to_broker.end()

"""A connection from one simulated node to another, as who has called sees it."""

import asyncio

from semel.verify.world.loop import Process
from semel.verify.world.network import Host, Network, Wire


class LineBetween:
    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.wire: Wire | None = None

    @classmethod
    def open(cls, network: Network, caller: Process, called: Host) -> "LineBetween":
        """Raises ConnectionRefusedError."""
        line = cls()
        line.wire = network.connect(caller, called, line.reader.feed_data, line.reader.feed_eof)
        return line

    def write(self, data: bytes, /) -> None:
        assert self.wire is not None
        self.wire.to_broker.write(data)

    def close(self) -> None:
        assert self.wire is not None
        self.wire.to_broker.end()

"""For whom a proxy connects: the header of PROXY protocol v2, which stands before all else.

It is read without a byte beyond it, as what follows belongs to TLS or to Kafka's protocol.
"""

import ipaddress
import struct
from typing import Final

from semel.access.origin import written
from semel.errors import ProtocolError

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED: Final = struct.Struct(">12sBBH")
SIZE_MAX: Final = 4096
"""Of addresses and what else a proxy says."""
_LOCAL, _PROXY = 0x20, 0x21
_ADDRESSES: Final = {0x11: 4, 0x21: 16}
"""By family and transport, TCP over IPv4 and IPv6: how long an address is."""


class ProxyHeader:
    """Reads one header."""

    def __init__(self) -> None:
        self._read = bytearray()
        self._size = _FIXED.size
        self._offered = bytearray()

    def buffer(self) -> bytearray:
        """Where the next bytes are to be received: no more than belong to it."""
        self._offered = bytearray(self._size - len(self._read))
        return self._offered

    def received(self, count: int) -> bool:
        """Whether it is whole now. Raises ProtocolError."""
        self._read += self._offered[:count]
        if len(self._read) < self._size:
            return False
        if self._size == _FIXED.size:
            signature, command, _, rest = _FIXED.unpack(self._read)
            if signature != SIGNATURE or command not in (_LOCAL, _PROXY) or rest > SIZE_MAX:
                raise ProtocolError("a proxy that does not speak PROXY protocol v2")
            self._size += rest
        return len(self._read) == self._size

    @property
    def host(self) -> str | None:
        """The client's; None if the proxy connects for itself."""
        _, command, kind, rest = _FIXED.unpack_from(self._read)
        if command == _LOCAL:
            return None
        size = _ADDRESSES.get(kind)
        if size is None or rest < 2 * size + 4:
            raise ProtocolError("a proxy that does not say for whom it connects")
        address = bytes(self._read[_FIXED.size : _FIXED.size + size])
        return written(str(ipaddress.ip_address(address)))

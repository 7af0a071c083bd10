"""A client whose bytes go straight into a protocol of the broker, in the same loop.

It shows what a socket hides: whether it is read from, and when what was answered.
"""

import asyncio
import struct
from typing import Any

from semel.broker.broker import Broker
from support.raw_client import decoded_reply, encoded, request_frame


class Wire(asyncio.Transport):
    _start_tls_compatible = True

    def __init__(self, protocol: asyncio.BaseProtocol, host: str = "127.0.0.1") -> None:
        super().__init__()
        self._host = host
        self.received = bytearray()
        self.said = bytearray()
        """All that the client has sent…"""
        self._unread = bytearray()
        """…and what of it is not read yet."""
        self._has_news = asyncio.Event()
        self._is_read_from = True
        self.is_cut_off = False
        self._protocol = protocol
        protocol.connection_made(self)

    # As a client

    def send(self, data: bytes) -> None:
        self.said += data
        self._unread += data
        self._hand_over()

    async def receive(self) -> bytes:
        """One reply, without its size. Raises ConnectionError if none comes any more."""
        while not self.replies():
            if self.is_cut_off:
                raise ConnectionResetError("the broker has closed the connection")
            self._has_news.clear()
            await self._has_news.wait()
        reply = self.replies()[0]
        del self.received[: 4 + len(reply)]
        return reply

    def replies(self) -> list[bytes]:
        """Those that are there, and whole."""
        found, at = [], 0
        while len(self.received) >= at + 4:
            (size,) = struct.unpack_from(">i", self.received, at)
            if len(self.received) < at + 4 + size:
                break
            found.append(bytes(self.received[at + 4 : at + 4 + size]))
            at += 4 + size
        return found

    def is_read_from(self) -> bool:
        return self._is_read_from

    def leave(self) -> None:
        if not self.is_cut_off:
            self.is_cut_off = True
            self._has_news.set()
            self._protocol.connection_lost(None)

    # As its transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._host, 1) if name == "peername" else default

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def _hand_over(self) -> None:
        while self._unread and self._is_read_from and not self.is_cut_off:
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                buffer = memoryview(self._protocol.get_buffer(-1))
                some = bytes(self._unread[: len(buffer)])
                del self._unread[: len(some)]
                buffer[: len(some)] = some
                self._protocol.buffer_updated(len(some))
            else:
                assert isinstance(self._protocol, asyncio.Protocol)
                some = bytes(self._unread)
                self._unread.clear()
                self._protocol.data_received(some)

    def pause_reading(self) -> None:
        self._is_read_from = False

    def resume_reading(self) -> None:
        self._is_read_from = True
        asyncio.get_running_loop().call_soon(self._hand_over)

    def is_reading(self) -> bool:
        return self._is_read_from

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.received += data
        self._has_news.set()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(map(bytes, parts)))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_cut_off

    def abort(self) -> None:
        if not self.is_cut_off:
            self.is_cut_off = True
            self._has_news.set()
            asyncio.get_running_loop().call_soon(lambda: self._protocol.connection_lost(None))

    close = abort

    def _force_close(self, error: BaseException | None) -> None:
        """As asyncio's TLS calls it."""
        self.abort()


class WiredClient(Wire):
    """Of a plain listener."""

    def __init__(self, broker: Broker, host: str = "127.0.0.1") -> None:
        self.connection = broker.connection()
        super().__init__(self.connection, host)

    def send_request(self, module: str, version: int, request: Any, number: int = 1) -> None:
        self.send(request_frame(module, version, encoded(module, version, request), number))

    async def call(self, module: str, version: int, request: Any) -> Any:
        self.send_request(module, version, request)
        return decoded_reply(module, version, await self.receive())

"""The least that a server can do: the yardstick the broker is measured against.

`produce`: read a frame, writev its batch to a file, answer. `fetch`: pread 1 MB and send it.
`handshake CERTIFICATE`: shake hands of TLS, and read what comes.
Both use the same `BufferedProtocol` of asyncio as the broker.
"""

import asyncio
import os
import ssl
import struct
import sys
import tempfile
from typing import cast

_SIZE = struct.Struct(">i")
_REPLY_SIZE = 50
_CORRELATION = slice(4, 8)
FETCH_BYTES = 1 << 20


class _Bare(asyncio.BufferedProtocol):
    def __init__(self, file: int) -> None:
        self.file = file
        self._buffer = bytearray(1 << 20)
        self._view = memoryview(self._buffer)
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._filled :]

    def buffer_updated(self, count: int) -> None:
        self._filled += count
        start = 0
        while self._filled - start >= 4:
            (size,) = _SIZE.unpack_from(self._view, start)
            end = start + 4 + size
            if end > self._filled:
                break
            self.answer(self._view[start + 4 : end])
            start = end
        if start:
            rest = bytes(self._view[start : self._filled])
            self._view[: len(rest)] = rest
            self._filled = len(rest)

    def answer(self, frame: memoryview) -> None:
        raise NotImplementedError


class BareProduce(_Bare):
    def answer(self, frame: memoryview) -> None:
        os.writev(self.file, (frame,))
        reply = _SIZE.pack(_REPLY_SIZE) + bytes(frame[_CORRELATION]) + bytes(_REPLY_SIZE - 4)
        self.transport.write(reply)


class BareFetch(_Bare):
    def answer(self, frame: memoryview) -> None:
        stored = os.pread(self.file, FETCH_BYTES, 0)
        head = _SIZE.pack(4 + len(stored)) + bytes(frame[_CORRELATION])
        self.transport.writelines((head, stored))


class BareHandshake(_Bare):
    def answer(self, frame: memoryview) -> None:
        """Nobody says anything."""


async def _serve(kind: str, certificate: str | None = None) -> None:
    with tempfile.TemporaryFile() as file:
        if kind == "fetch":
            file.write(os.urandom(FETCH_BYTES))
            file.flush()
        kinds = {"produce": BareProduce, "fetch": BareFetch, "handshake": BareHandshake}
        protocol = kinds[kind]
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        server = await asyncio.get_running_loop().create_server(
            lambda: protocol(file.fileno()), "127.0.0.1", 0, ssl=context
        )
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))

"""A store with the latency of a real one, in a process of its own, and nodes on it."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import lz4.frame

from bench import load
from semel.testing import Broker
from semel.testing.fault_server import CONTROL, FaultServer, serve
from semel.types import Buffer
from semel.wire.messages import metadata

BUCKET = "bucket"
URL = f"s3://{BUCKET}/cluster"
PACKED_BYTES_MIN = 2**16
HEAD_BYTES_MAX = 2**14
PATIENCE_S = 30.0
_READY = re.compile(r"The fault server is ready on (\S+)\n")


class Reader:
    """Receives into one buffer for all bodies of a connection: fresh memory for each would be most
    of what a large request costs the server, which is not what is measured."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(HEAD_BYTES_MAX))
        self._start = self._end = 0

    async def readuntil(self, separator: bytes) -> bytes:
        while True:
            found = bytes(self._buffer[self._start : self._end]).find(separator)
            if found >= 0:
                head = bytes(self._buffer[self._start : self._start + found + len(separator)])
                self._start += len(head)
                return head
            await self._receive(HEAD_BYTES_MAX)

    async def readexactly(self, size: int) -> memoryview | bytes:
        """Good until the next is read, if it is large."""
        while self._end - self._start < size:
            await self._receive(size - (self._end - self._start))
        body = self._buffer[self._start : self._start + size]
        self._start += size
        return body if size >= PACKED_BYTES_MIN else bytes(body)

    async def _receive(self, size: int) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        if self._end + size > len(self._buffer):
            kept = self._buffer[self._start : self._end]
            self._buffer = memoryview(bytearray(max(2 * HEAD_BYTES_MAX, len(kept) + size)))
            self._buffer[: len(kept)] = kept
            self._start, self._end = 0, len(kept)
        into = self._buffer[self._end : self._end + size]
        count = await self._loop.sock_recv_into(self._link, into)
        if not count:
            raise EOFError
        self._end += count


class Writer:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> None:
        self._parts.append(part)

    async def drain(self) -> None:
        parts, self._parts = self._parts, []
        await asyncio.get_running_loop().sock_sendall(self._link, b"".join(parts))

    def close(self) -> None:
        self._link.close()


class LeanServer(FaultServer):
    """A fault server of which large requests take little."""

    async def __aenter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self.bucket.objects = PackedObjects()
        self._links = asyncio.TaskGroup()
        await self._links.__aenter__()
        self._links.create_task(self._accept(listening))
        return self

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            link, _ = await loop.sock_accept(listening)
            link.setblocking(False)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._links.create_task(self._serve(Reader(link), Writer(link)))

    async def _serve(self, reader: Any, writer: Any) -> None:
        await super()._serve(reader, writer)

    async def _serve_one(self, reader: Any, writer: Any) -> None:
        await super()._serve_one(reader, writer)
        await writer.drain()

    async def __aexit__(self, *_: object) -> None:
        """The process ends."""


class Packed:
    """An object whose bytes are packed until they are wanted: loads are mostly zeros, and a store
    of many gigabytes fits into memory."""

    def __init__(self, content: Buffer) -> None:
        self._size = len(content)
        self._ends = bytes(content[:64]), bytes(content[-64:])
        self._packed = lz4.frame.compress(content)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> bytes:
        # These are read to list it.
        if wanted == slice(None, 64):
            return self._ends[0]
        if wanted == slice(-64, None):
            return self._ends[1]
        content: bytes = lz4.frame.decompress(self._packed)
        return content[wanted]


class PackedObjects(dict[str, Any]):
    def __setitem__(self, key: str, content: Buffer) -> None:
        super().__setitem__(key, Packed(content) if len(content) >= PACKED_BYTES_MIN else content)


class Store:
    """One that is served by another process."""

    def __init__(self, endpoint: str, process_id: int) -> None:
        self._endpoint = endpoint
        self.process_id = process_id

    def control(self, **weather: Any) -> dict[str, Any]:
        """Change the weather; what was counted so far."""
        request = urllib.request.Request(
            self._endpoint + CONTROL, json.dumps(weather).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def set_put_ms(self, put_ms: float) -> None:
        self.control(latency_s={"PUT": put_ms / 1000})

    @property
    def puts(self) -> int:
        return int(self.control()["counts"].get("PUT", 0))

    @property
    def stored_bytes(self) -> int:
        return int(self.control()["bytes"])


@contextmanager
def store(put_ms: float, lanes: int = 1) -> Iterator[Store]:
    """With a cluster in it; nodes find it by the environment."""
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.stores"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    before = dict(os.environ)
    try:
        assert server.stdout is not None
        ready = _READY.fullmatch(server.stdout.readline())
        assert ready is not None
        os.environ.update(
            AWS_ENDPOINT_URL=ready[1],
            AWS_ACCESS_KEY_ID="bench",
            AWS_SECRET_ACCESS_KEY="bench",
            AWS_REGION="us-east-1",
            # As over TLS, which is how stores are reached; what TLS itself takes is not in it.
            AWS_UNSIGNED_PAYLOAD="true",
        )
        create = [sys.executable, "-m", "semel", "cluster", "create", "--store", URL]
        create += ["--lanes", str(lanes)]
        subprocess.run(create, check=True, capture_output=True)
        made = Store(ready[1], server.pid)
        made.set_put_ms(put_ms)
        yield made
    finally:
        os.environ.clear()
        os.environ.update(before)
        server.kill()
        server.communicate()


def node(number: int, *arguments: str, **settings: object) -> Broker:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return Broker(settings=names, arguments=("--store", URL, "--node-id", str(number), *arguments))


def wait_for_leader(*ports: int) -> int:
    """The port of the node that leads."""
    frame = load.request(3, 8, metadata.MetadataRequest([]))
    ends_s = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < ends_s:
        for port in ports:
            try:
                reply, _ = metadata.decode_response(load.ask(port, frame), 4, 8)
            except OSError:
                continue
            for broker in reply.brokers:
                if broker.node_id == reply.controller_id:
                    return int(broker.port)
        time.sleep(0.01)
    raise TimeoutError("nobody leads")


@contextmanager
def leading_node(put_ms: float, *arguments: str, **settings: object) -> Iterator[Broker]:
    """A node by itself on such a store."""
    with store(put_ms), node(1, *arguments, **settings) as broker:
        wait_for_leader(broker.port)
        yield broker


def main() -> None:
    """Until it is killed."""
    asyncio.run(serve(LeanServer(BUCKET), ends_with_stdin=True))


if __name__ == "__main__":
    main()

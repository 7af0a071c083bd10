"""Load from one process over plain sockets: prepared frames out, replies counted in."""

import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from semel.records.records import Record, encode_batch
from semel.wire.apis import BY_KEY
from semel.wire.messages import fetch, metadata, produce

_SIZE = struct.Struct(">i")


class Load(NamedTuple):
    replies: int
    reply_bytes: int
    seconds: float
    latencies_ms: list[float]


def request(key: int, version: int, body: object, correlation_id: int = 1) -> bytes:
    api = BY_KEY[key]
    header = struct.pack(">hhih", key, version, correlation_id, 5) + b"bench"
    if version >= api.flexible_version_min:
        header += b"\0"
    frame = header + b"".join(bytes(part) for part in api.encode_request(body, version))
    return _SIZE.pack(len(frame)) + frame


def produce_request(
    topic: str, partition: int, size: int, acks: int, partition_count: int = 1
) -> bytes:
    batch = encode_batch([Record(None, bytes(max(1, size - 75)), 1_700_000_000_000)])
    return request(
        0,
        9,
        produce.ProduceRequest(
            None,
            acks,
            30_000,
            [
                produce.TopicProduceData(
                    topic,
                    [
                        produce.PartitionProduceData(partition + each, batch)
                        for each in range(partition_count)
                    ],
                )
            ],
        ),
    )


def fetch_request(topic: str, partitions: Sequence[int], size: int, offset: int = 0) -> bytes:
    wanted = [
        fetch.FetchPartition(index, -1, offset, -1, -1, size // len(partitions))
        for index in partitions
    ]
    return request(
        1,
        11,
        fetch.FetchRequest(None, -1, 500, 1, size, 0, 0, -1, [fetch.FetchTopic(topic, wanted)]),
    )


def metadata_request(topics: Sequence[str]) -> bytes:
    named = [metadata.MetadataRequestTopic(name=topic) for topic in topics]
    return request(3, 8, metadata.MetadataRequest(named))


def ask(port: int, frame: bytes) -> bytes:
    """One request on a connection of its own."""
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(frame)
        return receive(link)


def receive(link: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + _SIZE.unpack_from(data)[0]:
        more = link.recv(1 << 20)
        if not more:
            raise ConnectionError("the server closed the connection")
        data += more
    return data[4:]


def receive_exactly(link: socket.socket) -> bytearray:
    """One reply, leaving what follows it on the connection."""
    (size,) = _SIZE.unpack(_exactly(link, _SIZE.size))
    return _exactly(link, size)


def _exactly(link: socket.socket, size: int) -> bytearray:
    # In one piece from the beginning: what grows moves a megabyte with each read, which on two
    # cores is the time of the broker.
    data = bytearray(size)
    with memoryview(data) as view:
        received = 0
        while received < size:
            count = link.recv_into(view[received:])
            if not count:
                raise ConnectionError("the server closed the connection")
            received += count
    return data


def wait_for_topic(port: int, topic: str) -> None:
    ask(port, metadata_request([topic]))


Connect = Callable[[int], socket.socket]
"""To a port, and whatever comes before the first request."""


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


class _Link:
    def __init__(
        self, port: int, next_frame: Callable[[], bytes], in_flight: int, connect: Connect
    ) -> None:
        self.socket = connect(port)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next_frame = next_frame
        self._buffer = bytearray(1 << 20)
        self._filled = 0
        self._skip = 0
        self.sent_at: list[float] = []
        for _ in range(in_flight):
            self.send()

    def send(self) -> None:
        self.sent_at.append(time.perf_counter())
        self.socket.sendall(self._next_frame())

    def receive(self) -> tuple[int, int]:
        """Replies completed by what has arrived, and its bytes."""
        replies, count = self._receive()
        while isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
            more_replies, more = self._receive()
            replies, count = replies + more_replies, count + more
        return replies, count

    def _receive(self) -> tuple[int, int]:
        view = memoryview(self._buffer)
        count = self.socket.recv_into(view[self._filled :])
        if not count:
            raise ConnectionError("the server closed the connection")
        self._filled += count
        start = replies = 0
        while start < self._filled:
            if self._skip:
                taken = min(self._skip, self._filled - start)
                self._skip -= taken
                start += taken
                if self._skip:
                    break
                replies += 1
                continue
            if self._filled - start < 4:
                break
            (self._skip,) = _SIZE.unpack_from(view, start)
            start += 4
        rest = bytes(view[start : self._filled])
        view[: len(rest)] = rest
        self._filled = len(rest)
        return replies, count


def run(
    port: int,
    next_frame: Callable[[], bytes],
    *,
    connections: int,
    in_flight: int,
    seconds: float,
    connect: Connect = connected,
) -> Load:
    """Keep `in_flight` requests under way on each connection for `seconds`."""
    selector = selectors.DefaultSelector()
    links = [_Link(port, next_frame, in_flight, connect) for _ in range(connections)]
    for link in links:
        selector.register(link.socket, selectors.EVENT_READ, link)
    replies = reply_bytes = 0
    latencies_ms: list[float] = []
    started = time.perf_counter()
    ends = started + seconds
    now = started
    while now < ends:
        for key, _ in selector.select(1):
            link = key.data
            done, count = link.receive()
            now = time.perf_counter()
            replies += done
            reply_bytes += count
            for _ in range(done):
                latencies_ms.append((now - link.sent_at.pop(0)) * 1000)
                link.send()
    for link in links:
        link.socket.close()
    return Load(replies, reply_bytes, now - started, latencies_ms)

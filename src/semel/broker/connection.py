"""One client's connection: requests in, replies out in the order of the requests.

Requests are decided as they arrive; a reply waits for the journal and for the replies before it.
A client that sends faster than it reads, or than the disk takes, is not read from until it has
caught up, so that what the broker holds for it stays bounded.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from semel.broker.answer import Answer, Call
from semel.broker.inbox import Inbox
from semel.errors import ProtocolError
from semel.types import Buffer

if TYPE_CHECKING:
    from semel.broker.server import Server

REPLIES_AWAITED_MAX = 256
UNSENT_BYTES_MAX = 1 * 2**20


class Reply:
    """The place of one reply in the order of its connection."""

    __slots__ = ("_connection", "is_ready", "parts", "size")

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self.parts: list[Buffer] = []
        self.size = 0
        self.is_ready = False

    def release(self) -> None:
        """Nothing holds this reply back any longer but the replies before it."""
        self.is_ready = True
        self._connection.reply_released()


class Connection(asyncio.BufferedProtocol):
    def __init__(self, server: "Server") -> None:
        self._server = server
        self._inbox = Inbox(server.scratch, server.request_size_max)
        self._requests: deque[memoryview] = deque()
        self._replies: deque[Reply] = deque()
        self.unsent_bytes = 0
        """Of replies that are encoded and wait for their turn; the transport counts the others."""
        self._may_write = True
        self._may_read = True
        self._is_closing = False
        self._waiting: set[asyncio.Task[None]] = set()
        self.held_bytes = 0
        self.is_to_write = False
        self.active_at = 0.0
        self.number = 0
        self.client_host = ""
        self.listener = ("", 0)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if peer else "/"
        self.listener = (transport.get_extra_info("sockname") or ("", 0))[:2]
        self.active_at = self._server.loop.time()
        self.number = self._server.next_connection_number()
        if not self._server.connected(self):
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._requests.clear()
        self._replies.clear()
        for task in self._waiting:
            task.cancel()
        self._server.disconnected(self, self.held_bytes)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.buffer()

    def buffer_updated(self, count: int) -> None:
        self.active_at = self._server.loop.time()
        try:
            self._requests += self._inbox.received(count)
        except ProtocolError as error:
            self.close(str(error))
            return
        held = self._inbox.held
        if held != self.held_bytes:
            self._server.hold(held - self.held_bytes)
            self.held_bytes = held
        self._decide()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._decide()

    # Deciding

    def _decide(self) -> None:
        requests = self._requests
        while requests and self._is_keeping_up() and not self._is_closing:
            try:
                self._server.dispatch(requests.popleft(), self)
            except ProtocolError as error:
                self.close(str(error))
                return
        self._adjust_reading()

    def _is_keeping_up(self) -> bool:
        return (
            self._may_write
            and self.unsent_bytes < UNSENT_BYTES_MAX
            and len(self._replies) < REPLIES_AWAITED_MAX
        )

    def _adjust_reading(self) -> None:
        may_read = not self._requests and self._is_keeping_up()
        if may_read == self._may_read or self._is_closing:
            return
        self._may_read = may_read
        if may_read:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Answering

    def expect_reply(self) -> Reply:
        reply = Reply(self)
        self._replies.append(reply)
        return reply

    def wait(self, answer: Coroutine[Any, Any, Answer], call: Call) -> None:
        """Answer later, in a task that ends with this connection."""
        later = self._server.answer_later(call, answer, self.expect_reply(), self)
        task = self._server.start_task(later)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    def reply_released(self) -> None:
        replies = self._replies
        if replies and replies[0].is_ready:
            self._server.write_soon(self)

    def write_ready_replies(self) -> None:
        """Send every reply whose turn has come, in one write."""
        replies = self._replies
        parts: list[Buffer] = []
        while replies and replies[0].is_ready:
            reply = replies.popleft()
            parts += reply.parts
            self.unsent_bytes -= reply.size
        if not parts or self._is_closing:
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        else:
            self._transport.writelines(parts)
        if self._requests or not self._may_read:
            self._decide()

    @property
    def is_idle(self) -> bool:
        return not self._replies and not self._requests

    def shut(self) -> None:
        """End the connection after what has been written to it."""
        self._transport.close()

    def close(self, reason: str) -> None:
        """End the connection at once, because of what the client did."""
        if not self._is_closing:
            self._is_closing = True
            self._server.refused(self, reason)
            self._transport.abort()

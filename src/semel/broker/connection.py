"""One client's connection: requests in, replies out in the order of the requests.

Requests are decided as they arrive; a reply waits for the journal and for the replies before it.
What stands behind a request that waits for others, such as a long-poll fetch, is decided after
that, as in Kafka. A client that sends faster than it reads, or than the disk takes, is not read
from until it has caught up, so that what the broker holds for it stays bounded.
"""

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from semel.access.origin import written
from semel.access.principal import FIRST_LISTENER, Caller
from semel.access.rights import NOTHING, Rights
from semel.at_once import Run
from semel.broker.answer import Answer, Call
from semel.broker.inbox import Inbox
from semel.durations import Durations
from semel.errors import ProtocolError
from semel.lane.lane import Lane, Mark
from semel.types import Buffer, Position

if TYPE_CHECKING:
    from semel.broker.entrance import Entrance
    from semel.broker.server import Server
    from semel.broker.sign_in import SignIn
    from semel.cluster.session import Session

REPLIES_AWAITED_MAX: Final = 256
UNSENT_BYTES_MAX: Final = 1 * 2**20

WRITELINES_PAUSES: Final = sys.version_info < (3, 12) or not (
    sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)
)
"""False where asyncio forgets to say that a client reads too slowly (CVE-2024-12254)."""


class Reply:
    """The place of one reply in the order of its connection."""

    __slots__ = (
        "_awaited_count",
        "_connection",
        "durations",
        "is_ready",
        "lanes",
        "parts",
        "read_at",
        "size",
    )

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self.parts: Sequence[Buffer] = ()
        self.size = 0
        self.lanes: Sequence[Lane] = ()
        """Whose journals have to come so far first."""
        self._awaited_count = 0
        self.is_ready = False
        self.read_at = connection.read_at
        """When its request was read."""
        self.durations: Durations | None = None
        """Where it counts how long it took."""

    def wait_for(self, marks: Sequence[Mark], *, durable: bool) -> None:
        if not marks:
            self.release()
            return
        self.lanes = [mark.lane for mark in marks]
        self._awaited_count = len(marks) + 1
        for mark in marks:
            wait = mark.lane.when_durable if durable else mark.lane.when_written
            wait(mark.position, self._reached_one)
        self._reached_all_asked(marks)

    def wait_until_certain(self, marks: Sequence[Mark], ends: Mapping[Lane, Position]) -> None:
        """As `wait_for`, where others can lead: the lanes ended there when the request came."""
        if not marks:
            self.release()
            return
        self.lanes = [mark.lane for mark in marks]
        self._awaited_count = len(marks) + 1
        for mark in marks:
            mark.lane.when_certain(mark.position, ends.get(mark.lane), self._reached_one)
        self._reached_all_asked(marks)

    def wait_until_all_certain(self, lanes: tuple[Lane], since: Position) -> None:
        """As `wait_until_certain`, for all that the one lane has decided by now."""
        self.lanes = lanes
        lane = lanes[0]
        if lane.is_leading:
            lane.when_all_certain(since, self.release)
        else:
            # It may have been decided on what will never be durable.
            self._connection.abort()

    def _reached_all_asked(self, marks: Sequence[Mark]) -> None:
        self._reached_one()
        if not self.is_ready and not all(mark.lane.may_confirm for mark in marks):
            # A lane has left since this was decided: its mark may never be reached here, and what
            # was appended may yet count.
            self._connection.abort()

    def wait_for_ends(self, lanes: Sequence[Lane], *, durable: bool) -> None:
        """For all that these lanes have decided by now."""
        self.lanes = lanes
        if len(lanes) == 1:
            if durable:
                lanes[0].when_all_durable(self.release)
            else:
                lanes[0].when_all_written(self.release)
            return
        # One more than there are, as those that are reached already say so at once.
        self._awaited_count = len(lanes) + 1
        for lane in lanes:
            if durable:
                lane.when_all_durable(self._reached_one)
            else:
                lane.when_all_written(self._reached_one)
        self._reached_one()

    def _reached_one(self) -> None:
        self._awaited_count -= 1
        if not self._awaited_count:
            self.release()

    def release(self) -> None:
        """Nothing holds this reply back any longer but the replies before it."""
        self.is_ready = True
        self._connection.reply_released()


class Connection(asyncio.BufferedProtocol):
    def __init__(
        self,
        server: "Server",
        listener: str = FIRST_LISTENER,
        entrance: "Entrance | None" = None,
    ) -> None:
        """`listener` is the name of the one that it came to; whoever comes through an `entrance`
        has to pass that first."""
        self._server = server
        self._listener_name = listener
        self._entrance = entrance
        self._dispatch: Callable[[bytes, Connection], None] = server.decide
        """Where requests go: to the entrance, until that lets the client in."""
        self._is_admitted = False
        self._inbox = Inbox(server.scratch, server.request_size_max)
        self._offered_size = 0
        self._requests: deque[bytes] = deque()
        self._replies: deque[Reply] = deque()
        self.unsent_bytes = 0
        """Of replies that are encoded and wait for their turn; the transport counts the others."""
        self._replies_awaited_max = REPLIES_AWAITED_MAX
        self._hold_count = 0
        self._muted: asyncio.TimerHandle | None = None
        self._may_write = True
        self._may_read = True
        self.is_closing = False
        self._waiting: Run[None] | asyncio.Task[None] | None = None
        self._buffered_bytes = 0
        """That the transport could not hand on, when that was last looked at."""
        self.held_bytes = 0
        self.is_to_write = False
        self.active_at = 0.0
        self.read_at: float = 0.0
        """When something last came: while requests wait, when the last of them did."""
        self._has_put_off = False
        self.number = 0
        self.is_counted = False
        """Among those that there may be so many of."""
        self.caller = Caller()
        self.rights: Rights = NOTHING
        """Until it is known whose they are."""
        self.client_host = ""
        self.software = ""
        self.listener = ("", 0)
        self.told_spent: tuple[int, int, int] | None = None
        self.put_off_count = 0
        self.was_sent_away = False
        self.session: Session | None = None
        self.sign_in: SignIn | None = None

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._write_parts: Callable[[Sequence[Buffer]], None] = self._transport.writelines
        address = transport.get_extra_info("sockname")
        if isinstance(address, tuple):
            self.listener = address[:2]
        self.active_at = self._server.loop.time()
        if self._entrance is not None:
            self._entrance.entered(self, self._transport)
        else:
            peer = transport.get_extra_info("peername")
            host = written(peer[0]) if peer else ""
            self.admit(Caller(listener=self._listener_name, host=host))
        if not self._server.connected(self):
            self._transport.abort()

    # Who sends

    @property
    def has_entrance(self) -> bool:
        return self._entrance is not None

    def hold_back(
        self,
        caller: Caller,
        dispatch: "Callable[[bytes, Connection], None]",
        request_size_max: int,
    ) -> None:
        """Have requests decided elsewhere until the caller is admitted."""
        self.caller = caller
        self.client_host = f"/{caller.host}"
        self._is_admitted = False
        self._dispatch = dispatch
        self._inbox.size_max = request_size_max

    def admit(self, caller: Caller) -> None:
        """From here on it is the caller who sends the requests."""
        self.caller = caller
        self.rights = self._server.rights_of(caller)
        self.client_host = f"/{caller.host}"
        self._is_admitted = True
        self._dispatch = self._server.decide
        self._inbox.size_max = self._server.request_size_max

    def decide_by(self, dispatch: "Callable[[bytes, Connection], None]") -> None:
        """Quotas have come or gone."""
        if self._is_admitted:
            self._dispatch = dispatch

    def write_parts_by(self, write_parts: "Callable[[Sequence[Buffer]], None]") -> None:
        """Write so from now on: over TLS each part would become a record of its own."""
        self._write_parts = write_parts

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        self._requests.clear()
        self._replies.clear()
        if self._waiting is not None:
            # Not at once: a task that is ended before its first step leaves behind what its
            # request has begun, such as the place of a member who waits for its group.
            waiting = self._waiting
            end = waiting.stop if isinstance(waiting, Run) else waiting.cancel
            self._server.loop.call_soon(end)
        if self._muted is not None:
            self._muted.cancel()
        if self._entrance is not None:
            self._entrance.left(self)
        self._server.disconnected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = self._inbox.buffer()
        self._offered_size = len(buffer)
        return buffer

    def buffer_updated(self, count: int) -> None:
        self.active_at = self.read_at = self._server.loop.time()
        if count == self._offered_size:
            self._server.full_read_count += 1
        try:
            self._requests += self._inbox.received(count)
        except ProtocolError as error:
            self.close(str(error))
            return
        self._decide()

    def read_now(self, descriptor: int) -> bool:
        """What has come to its socket by now, if anything has."""
        has_come = False
        while self._may_read and not self.is_closing:
            buffer = self.get_buffer(-1)
            try:
                count = os.readv(descriptor, [buffer])
            except OSError:
                # There is nothing, or the loop will find what is wrong.
                break
            if count:
                has_come = True
                self.buffer_updated(count)
            if count < len(buffer):
                break
        return has_come

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._may_write = False
        self._count_buffered(self._transport.get_write_buffer_size())
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._may_write = True
        self._count_buffered(0)
        self.active_at = self._server.loop.time()
        self.reply_released()
        self._decide()

    def _count_buffered(self, size: int) -> None:
        self._server.count_unsent(size - self._buffered_bytes)
        self._buffered_bytes = size

    # Deciding

    def _decide(self) -> None:
        requests = self._requests
        put_off_count = len(requests) if self._has_put_off else 0
        while requests and self._waiting is None and self._is_keeping_up() and not self.is_closing:
            dispatch = self._dispatch  # Another one as soon as its client is let in.
            try:
                dispatch(requests.popleft(), self)
            except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
                self._server.failed(self, error)
                return
        if put_off_count:
            self._server.count_waits(put_off_count - len(requests), self.read_at)
            self._has_put_off = False
        held = self._inbox.held
        if requests:
            self._has_put_off = True
            held += sum(map(len, requests))
        if held != self.held_bytes:
            more, self.held_bytes = held - self.held_bytes, held
            self._server.hold(more)
        self._adjust_reading()

    def _is_keeping_up(self) -> bool:
        return (
            self._may_write
            and self.unsent_bytes < UNSENT_BYTES_MAX
            and len(self._replies) < self._replies_awaited_max
        )

    def _adjust_reading(self) -> None:
        may_read = not self._requests and self._is_keeping_up()
        if may_read == self._may_read or self.is_closing:
            return
        self._may_read = may_read
        if may_read:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Waiting with what comes

    def hold(self) -> None:
        """Decide nothing more, and read nothing more, until this was taken back."""
        self._hold_count += 1
        # So that nobody has to look whether it is held.
        self._replies_awaited_max = 0

    def take_back_hold(self) -> None:
        self._hold_count -= 1
        if not self._hold_count:
            self._replies_awaited_max = REPLIES_AWAITED_MAX
            if not self.is_closing:
                self._decide()

    def mute(self, duration_ms: int) -> None:
        """Do not read from a client for a while that has used more than its quota."""
        if self.is_closing:
            return
        duration_s = duration_ms / 1000
        until_s = self._server.loop.time() + duration_s
        if self._muted is not None:
            if until_s <= self._muted.when():
                return
            self._muted.cancel()
        else:
            self.hold()
            self._adjust_reading()
        # Nor is it taken for silent.
        self.active_at = max(self.active_at, until_s)
        self._muted = self._server.loop.call_later(duration_s, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self.take_back_hold()

    # Answering

    def expect_reply(self) -> Reply:
        reply = Reply(self)
        self._replies.append(reply)
        return reply

    def wait(self, answer: Coroutine[Any, Any, Answer], call: Call) -> None:
        """Answer later, in a task that ends with this connection."""
        later = self._server.answer_later(call, answer, self.expect_reply(), self)
        task = self._server.start_task(later)
        task.add_done_callback(lambda _: self._waited(answer))
        self._waiting = task

    def wait_without_task(self, answer: Coroutine[Any, Any, Answer], call: Call) -> None:
        """As `wait`, of what needs none."""
        later = self._server.answer_later(call, answer, self.expect_reply(), self)
        run = self._server.runs.begin(later, lambda: self._waited(answer))
        self._waiting = None if run.done() else run

    def _waited(self, answer: Coroutine[Any, Any, Answer]) -> None:
        # At the end of the broker a task may be ended before its first step, its answer unasked.
        answer.close()
        self._waiting = None
        if self._requests:
            # What it has waited for may be in the middle of a step.
            self._server.loop.call_soon(self._decide)

    def say(self, said: bytes) -> None:
        """What is no reply that has its turn."""
        if not self.is_closing:
            self._transport.write(said)

    def reply_released(self) -> None:
        if self.is_to_write:
            return  # It leaves with those that were ready before.
        replies = self._replies
        if replies and replies[0].is_ready:
            if len(replies) == 1 and self._may_read and not self._requests:
                # There is nothing else that could leave with it.
                self.write_ready_replies()
            else:
                self._server.write_soon(self)

    def write_ready_replies(self) -> None:
        """Send every reply whose turn has come, in one write."""
        if not self._may_write:
            return
        replies = self._replies
        parts: list[Buffer] = []
        size = 0
        now = self._server.loop.time()
        # Those of one read take as long, and are counted together.
        durations: Durations | None = None
        read_at = 0.0
        count = 0
        while replies and replies[0].is_ready:
            reply = replies.popleft()
            parts += reply.parts
            size += reply.size
            if reply.read_at != read_at or reply.durations is not durations:
                if durations is not None:
                    durations.add(now - read_at, count)
                durations, read_at, count = reply.durations, reply.read_at, 0
            count += 1
        if durations is not None:
            durations.add(now - read_at, count)
        self.unsent_bytes -= size
        self._server.unsent_bytes -= size
        if self.is_closing:
            return
        if len(parts) == 1:
            self._transport.write(parts[0])
        elif WRITELINES_PAUSES and parts:
            self._write_parts(parts)
        else:
            # Nothing at all, if those whose turn has come asked for no reply.
            self._transport.write(b"".join(parts))
        if self._requests or not self._may_read:
            self._decide()

    def waits_for(self, lane: Lane) -> bool:
        """Whether a reply that was decided waits for what this lane has appended."""
        return any(not reply.is_ready and lane in reply.lanes for reply in self._replies)

    def lane_left(self) -> None:
        """A lane has left that none of its replies waits for."""

    @property
    def unread_bytes(self) -> int:
        """Of all replies that are kept for this client until it reads."""
        return self.unsent_bytes + self._buffered_bytes

    def close_if_idle(self, silent_since: float) -> None:
        """End the connection of a client that neither sends nor reads what it was sent."""
        unread = self._transport.get_write_buffer_size()
        if unread < self._buffered_bytes:
            # Slowly, but it reads.
            self._count_buffered(unread)
            self.active_at = self._server.loop.time()
        if self.active_at >= silent_since:
            return
        if unread:
            self._transport.abort()
        elif not self._replies and not self._requests:
            self._transport.close()

    def shut(self) -> None:
        """End the connection after what has been written to it; decide nothing more."""
        self.is_closing = True
        self._transport.close()

    def close(self, reason: str) -> None:
        """End the connection at once, because of what the client did."""
        if not self.is_closing:
            self._server.refused(self, reason)
            self.abort()

    def abort(self) -> None:
        """End the connection at once; what is not yet sent is lost."""
        self.is_closing = True
        self._transport.abort()

"""Listens, and carries requests to their handlers and answers back.

Replies of one connection that become ready together leave in one write.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from semel.access.principal import Caller
from semel.access.rights import Rights
from semel.at_once import Runs
from semel.broker import log
from semel.broker.answer import Answer, Call, WithoutTask
from semel.broker.connection import Connection, Reply
from semel.broker.connection_limits import ConnectionLimits
from semel.broker.dispatch import Handler, Reader, encode_in_steps, read_request, with_head
from semel.broker.inbox import SCRATCH_SIZE
from semel.broker.metering import MeteredRequest
from semel.durations import Durations
from semel.errors import JournalFailed, ProtocolError
from semel.lane.lane import Lane
from semel.types import Buffer
from semel.wire.apis import NODE_CALL

if TYPE_CHECKING:
    from semel.broker.broker import Broker
    from semel.cluster.desk import Desk

READING_PASSES: Final = 5
"""Of the loop. What waits at the door takes so many: it is found, accepted, connected, found to
have sent something, and read."""

READING_PASSES_MAX: Final = READING_PASSES + 6 * 2**20 // SCRATCH_SIZE
"""So much the kernel holds for a connection, as Linux comes; what is read behind that is newer."""

UNLED_S_MAX: Final = 1.0
"""So long a request waits for a leader before it is refused, from when its connection was last
read: those that were sent one behind the other wait together."""

CLOSINGS_INTERVAL_S: Final = 60.0
"""Between two lines of the log about connections that were closed."""


class Server:
    def __init__(self, broker: "Broker", tasks: asyncio.TaskGroup) -> None:
        self._broker = broker
        self._tasks = tasks
        self.loop = asyncio.get_running_loop()
        self.runs = Runs(self.start_task)
        self.hear_others: Callable[[], None] | None = None
        """Reads what other workers have said by now; None if there are none. To be called before
        anything is decided for a client, who may have heard already of an outcome that lies
        there."""
        self.decide: Callable[[bytes, Connection], None] = self.dispatch
        """Where requests go of clients that have come in."""
        self.scratch = memoryview(bytearray(SCRATCH_SIZE))
        self.request_size_max = broker.config.socket_request_max_bytes
        self._connections: dict[Connection, None] = {}
        """In the order in which they were accepted, in which they are also ended: a simulated run
        is to be the same each time."""
        self.limits = ConnectionLimits(broker)
        self._is_closed = False
        self.full_read_count = 0
        """Reads that may have left something behind."""
        self.last_connection_number = 0
        self._closings = Closings()
        self._latencies = broker.metrics.latencies
        self._to_write: list[Connection] = []
        self._held_bytes = 0
        self._undecided_bytes = 0
        """Of requests that wait for a leader."""
        self._unsent_bytes_max = 2 * broker.config.queued_max_response_bytes
        self.unsent_bytes = 0
        """Of all replies that are encoded and not yet taken by the kernel, as far as is known."""

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def led_lanes(self) -> Sequence[Lane]:
        return self._broker.lanes.led

    @property
    def desk(self) -> "Desk":
        """Where what other workers say is answered."""
        desk = self._broker.host.node
        assert desk is not None
        return desk

    def start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.create_task(work)

    # Connections

    def connected(self, connection: Connection) -> bool:
        """Number the connection; False if it comes too late, or too many have come."""
        self.last_connection_number += 1
        connection.number = self.last_connection_number
        self._connections[connection] = None
        self._broker.late_requests.opened(connection.number)
        metrics = self._broker.metrics
        metrics.connections_accepted += 1
        if self._is_closed:
            return False
        caller = connection.caller
        # Who has come through a gate was counted there, before a handshake.
        may_come = connection.has_entrance or (
            self.lets_come(caller.listener) and self._broker.metering.lets_in(caller.host)
        )
        connection.is_counted = may_come and self.limits.entered(caller)
        metrics.connections_refused += not connection.is_counted
        if connection.is_counted and self.limits.is_exceeded:
            self._make_room()
        return connection.is_counted

    def lets_come(self, listener: str) -> bool:
        """Whether one more may connect there now."""
        return self.limits.lets_come(listener, int(self.loop.time() * 1000))

    def _make_room(self) -> None:
        """For a node: the client goes that was silent for the longest."""
        clients = [
            each
            for each in self._connections
            if each.is_counted
            and not each.is_closing
            and not self.limits.is_of_nodes(each.caller.listener)
        ]
        if clients:
            silent = min(clients, key=lambda each: each.active_at)
            self._closings.note(silent.client_host, "a node needs its room", self.loop.time())
            silent.abort()

    def disconnected(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if connection.is_counted:
            self.limits.left(connection.caller)
        self._broker.late_requests.closed(connection.number)
        for lane in self._broker.lanes.led:
            lane.waiting_room.disconnected(connection.number)
        self._held_bytes -= connection.held_bytes
        self.unsent_bytes -= connection.unread_bytes

    def hold(self, more_bytes: int) -> None:
        """Count what undecided requests hold; over the limit, the largest sender is cut off."""
        self._held_bytes += more_bytes
        if self._held_bytes > self._broker.config.queued_max_request_bytes:
            largest = max(self._connections, key=lambda connection: connection.held_bytes)
            largest.close("unfinished requests hold too much memory")

    def count_unsent(self, more_bytes: int) -> None:
        """Count what is kept for clients to read; far over the limit, the slowest is cut off.

        Up to the limit it never comes to that, since fetches are then answered shorter.
        """
        self.unsent_bytes += more_bytes
        if self.unsent_bytes > self._unsent_bytes_max:
            largest = max(self._connections, key=lambda connection: connection.unread_bytes)
            largest.close("unread replies hold too much memory")

    def count_waits(self, request_count: int, read_at: float) -> None:
        """Count how long requests waited that were not decided when they were read, but are now."""
        self._broker.metrics.queue_seconds += request_count * (self.loop.time() - read_at)

    def refused(self, connection: Connection, reason: str) -> None:
        self._broker.metrics.requests_malformed += 1
        self._closings.note(connection.client_host, reason, self.loop.time())

    def turned_away(self, client_host: str, reason: str) -> None:
        """Before it could send a request."""
        self._broker.metrics.connections_refused += 1
        self._closings.note(client_host, reason, self.loop.time())

    def tell_of_closings(self) -> None:
        self._closings.tell(self.loop.time())
        self._broker.audit.tell()

    def rights_of(self, caller: Caller) -> Rights:
        """What a caller may do that has just come in."""
        return self._broker.access.rights_of(caller)

    def failed(self, connection: Connection, error: Exception) -> None:
        """A request could not be decided or answered; its connection ends, and no other.

        There is no reply: a producer that hears of a server's error may number its records anew
        and so send them twice (KAFKA-14034). One whose connection breaks sends the same again.
        """
        if isinstance(error, ProtocolError | JournalFailed):
            connection.close(str(error))
            return
        self._broker.metrics.requests_failed += 1
        self._broker.complain("a request failed", error)
        connection.abort()

    def lane_left(self, lane: Lane) -> None:
        """Nobody knows whether what it has appended will count: whoever waits for it hears nothing,
        and finds out from the next leader."""
        for connection in tuple(self._connections):
            if connection.waits_for(lane):
                connection.abort()
            else:
                connection.lane_left()

    def lane_behind(self) -> Lane | None:
        """One that cannot take more for now."""
        for lane in self._broker.lanes.led:
            if lane.is_behind:
                return lane
        return None

    def close_idle(self) -> None:
        silent_since = self.loop.time() - self._broker.config.connections_max_idle_ms / 1000
        for connection in tuple(self._connections):
            connection.close_if_idle(silent_since)

    def close(self) -> None:
        """Decide nothing more. Law: before the tasks end, which a request could not start then."""
        self._is_closed = True
        for connection in tuple(self._connections):
            connection.shut()
        self.runs.stop()

    # Requests

    async def read_what_waits(self) -> None:
        """Return when all that clients had sent before is read."""
        empty_pass_count = 0
        for _ in range(READING_PASSES_MAX):
            full_read_count = self.full_read_count
            await asyncio.sleep(0)
            empty_pass_count += 1
            if self.full_read_count != full_read_count:
                empty_pass_count = 0
            elif empty_pass_count == READING_PASSES:
                return

    def dispatch(self, frame: bytes, connection: Connection, read: Reader = read_request) -> None:
        """Decide one request now; its reply leaves when the journal and its turn allow."""
        broker = self._broker
        if self.hear_others is not None and broker.across.is_used:
            self.hear_others()
        call, body, handler = read(frame, connection)
        must_wait = not connection.rights.is_known and bool(call.api.rights)
        if broker.is_shared:
            lanes = broker.lanes.led
            call.ends = (
                {lanes[0]: lanes[0].end} if len(lanes) == 1 else {lane: lane.end for lane in lanes}
            )
            must_wait |= not broker.elsewhere.is_known and call.api.is_for_leader
        if must_wait:
            patience_s = connection.active_at + UNLED_S_MAX - self.loop.time()
            if patience_s > 0 and self._may_hold(len(frame)):
                self._undecided_bytes += len(frame)
                waiting = self._when_known(handler, body, call, len(frame), patience_s)
                connection.wait(waiting, call)
                return
        handled = handler(broker, body, call)
        broker.metrics.requests[call.api.key] += 1
        if isinstance(handled, Answer):
            if handled.response is not None:
                self._answer(call, handled, connection.expect_reply(), connection)
        elif isinstance(handled, WithoutTask):
            connection.wait_without_task(handled.answer, call)
        elif call.api.key == NODE_CALL.key:
            self.runs.begin(self._answer_in_its_turn(call, handled, connection))
        else:
            connection.wait(handled, call)

    def _dispatch_metered(self, frame: bytes, connection: Connection) -> None:
        metered = MeteredRequest(self._broker.metering)
        try:
            self.dispatch(frame, connection, metered.read)
        finally:
            metered.end()

    def count_requests(self, *, is_needed: bool) -> None:
        """Quotas have come, or all have gone."""
        self.decide = self._dispatch_metered if is_needed else self.dispatch
        for connection in self._connections:
            connection.decide_by(self.decide)

    def _may_hold(self, size: int) -> bool:
        held_max = self._broker.config.queued_max_request_bytes // 2
        return self._undecided_bytes + size <= held_max

    async def _when_known(
        self, handler: Handler, body: Any, call: Call, size: int, patience_s: float
    ) -> Answer:
        """While a lane is handed over nobody could say where to go, or what its client may do: who
        asks then is answered when it is known who leads, which may be this node, and what was said
        there. That is sooner than a client would come back."""
        broker = self._broker
        until_s = self.loop.time() + patience_s
        try:
            if broker.is_shared:
                await broker.elsewhere.until_known(patience_s)
            if not call.peer.rights.is_known:
                await broker.access.until_known(until_s)
        finally:
            self._undecided_bytes -= size
        if broker.is_shared:
            call.ends = {lane: lane.mark().position for lane in broker.lanes.led}
        handled = handler(self._broker, body, call)
        self._broker.metrics.requests[call.api.key] += 1
        return handled if isinstance(handled, Answer) else await handled

    async def answer_later(
        self,
        call: Call,
        answer: Coroutine[Any, Any, Answer],
        reply: Reply,
        connection: Connection,
    ) -> None:
        try:
            answered = await answer
            encoded = None
            if call.api.in_steps:
                encoded = await encode_in_steps(call, answered)
            if not connection.is_closing:
                # What is counted as kept for a client that is gone would be so for ever.
                self._answer(call, answered, reply, connection, encoded)
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self.failed(connection, error)

    async def _answer_in_its_turn(
        self, call: Call, answer: Coroutine[Any, Any, Answer], connection: Connection
    ) -> None:
        """Nodes number their calls, so that none waits for those before it."""
        try:
            answered = await answer
            if not connection.is_closing:
                self._answer(call, answered, connection.expect_reply(), connection)
        except Exception as error:  # noqa: BLE001 - others must be served whatever it is.
            self.failed(connection, error)

    def _answer(
        self,
        call: Call,
        answer: Answer,
        reply: Reply,
        connection: Connection,
        encoded: list[Buffer] | None = None,
    ) -> None:
        key = call.api.key
        try:
            reply.durations = self._latencies[key]
        except KeyError:
            reply.durations = self._latencies[key] = Durations()
        if answer.response is not None:
            parts = encoded or call.api.encode_response(answer.response, call.version)
            reply.parts, size = with_head(call, parts)
            reply.size = size
            connection.unsent_bytes += size
            self.count_unsent(size)
        if call.ends is not None and answer.durable:
            lanes = self._broker.lanes.led
            marks = answer.marks
            if marks is None:
                if len(lanes) == len(call.ends) == 1 and lanes[0] in call.ends:
                    reply.wait_until_all_certain(lanes, call.ends[lanes[0]])
                    return
                if not all(lane.may_confirm for lane in call.ends):
                    # It may have been decided on what will never be durable.
                    connection.abort()
                    return
                marks = self._broker.lanes.marks()
                # Those that are being handed over by now.
                marks += [lane.mark() for lane in call.ends if not lane.is_leading]
            reply.wait_until_certain(marks, call.ends)
        elif answer.marks is None:
            reply.wait_for_ends(self._broker.lanes.led, durable=answer.durable)
        else:
            reply.wait_for(answer.marks, durable=answer.durable)

    # Replies

    def write_soon(self, connection: Connection) -> None:
        """Write its replies that are ready by the end of this tick; once for all of them."""
        to_write = self._to_write
        if not to_write:
            self.loop.call_soon(self._write)
        connection.is_to_write = True
        to_write.append(connection)

    def _write(self) -> None:
        to_write, self._to_write = self._to_write, []
        for connection in to_write:
            connection.is_to_write = False
            connection.write_ready_replies()


class Closings:
    """Tells the log of connections closed for what they sent: the first at once, then how many.

    Whoever knocks with garbage again and again must not fill the disk with our complaints.
    `now_s` is the time of any clock that never goes back.
    """

    def __init__(self) -> None:
        self._silent_until_s = 0.0
        self._untold_count = 0
        self._latest = ("", "")

    def note(self, client_host: str, reason: str, now_s: float) -> None:
        self._untold_count += 1
        self._latest = (client_host, reason)
        self.tell(now_s)

    def tell(self, now_s: float) -> None:
        """Say what has not been said yet, unless it is too soon."""
        if not self._untold_count or now_s < self._silent_until_s:
            return
        client, reason = self._latest
        if self._untold_count == 1:
            log.warning("connection closed", client=client, reason=reason)
        else:
            log.warning("connections closed", count=self._untold_count, last=client, reason=reason)
        self._untold_count = 0
        self._silent_until_s = now_s + CLOSINGS_INTERVAL_S

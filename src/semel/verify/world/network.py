"""Connections between simulated clients and the broker's own protocol objects.

Bytes of a connection are never reordered. A connection can be reset, go silent, or outlive its
client, so that requests arrive long after their sender gave up.
"""

import asyncio
import enum
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple, Protocol

from semel.types import Buffer, TopicPartition
from semel.verify.world.loop import Process, Trace

DELAY_S_MEAN = 0.0008
ADDRESS = ("broker.test", 9092)
LATE_FACTOR_MAX = 800.0


class Pipe:
    """Bytes one way: in order, cut anywhere, late by what chance wills."""

    def __init__(
        self,
        name: str,
        receiver: Process,
        rng: Random,
        trace: Trace,
        deliver: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._receiver = receiver
        self._rng = rng
        self._trace = trace
        self._deliver = deliver
        self._on_end = on_end
        self._held = bytearray()
        self._is_planned = False
        self._is_paused = False
        self._is_ended = False
        self._is_over = False
        self._is_swallowing = False
        self.delay_s_mean = DELAY_S_MEAN * rng.choice((0.3, 1, 1, 4))
        self.on_drained: Callable[[int], None] | None = None
        """Told how many bytes are still under way whenever some have arrived."""

    @property
    def held_size(self) -> int:
        return len(self._held)

    def write(self, content: bytes) -> None:
        if not self._is_ended and not self._is_swallowing:
            self._held += content
            self._plan()

    def end(self) -> None:
        """What was written still arrives, and then the end does."""
        self._is_ended = True
        self._plan()

    def cut(self) -> None:
        """What has not arrived is lost; the receiver hears of it."""
        self._held.clear()
        self.end()

    def swallow(self) -> None:
        """What has not arrived is lost, and nobody hears of it."""
        self._held.clear()
        self._is_swallowing = True

    def stop(self) -> None:
        """Nothing arrives any more, not even the end."""
        self._is_over = True

    def slow_down(self, factor: float) -> None:
        self.delay_s_mean *= factor

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._plan()

    def arrive_now(self) -> bool:
        """All that was written, if anything was."""
        is_anything = bool(self._held) and not (self._is_paused or self._is_over)
        if is_anything:
            piece = bytes(self._held)
            self._held.clear()
            self._trace.add(self._name, piece)
            self._deliver(piece)
        return is_anything

    def _plan(self) -> None:
        if self._is_planned or self._is_paused or self._is_over:
            return
        if self._held or self._is_ended:
            self._is_planned = True
            delay_s = self._rng.expovariate(1 / self.delay_s_mean)
            # As a part of the receiver: a dead one receives nothing.
            self._loop.call_later(delay_s, self._arrive, context=self._receiver.context)

    def _arrive(self) -> None:
        self._is_planned = False
        if self._is_paused or self._is_over:
            return
        if self._held:
            size = len(self._held)
            if self._rng.random() < 0.2:
                size = self._rng.randint(1, size)
            piece = bytes(self._held[:size])
            del self._held[:size]
            self._trace.add(self._name, piece)
            self._deliver(piece)
            if self.on_drained is not None:
                self.on_drained(len(self._held))
        elif self._is_ended:
            self._is_over = True
            self._trace.add(f"{self._name} ends")
            self._on_end()
        self._plan()


class Loss(enum.Enum):
    """How a connection ends."""

    RESET = "reset"
    """Both sides hear of it; what is under way is lost."""
    LATE = "late"
    """The client is gone; what it sent still arrives, and late."""
    SILENT = "silent"
    """Nothing more reaches the client, and it is not told."""


class OfGroup(NamedTuple):
    """What its coordinator is asked."""

    group: str


class OfId(NamedTuple):
    """What the coordinator of a transactional id is asked."""

    transactional_id: str


About = TopicPartition | OfGroup | OfId | None
"""What a client is about to ask of; None: anything that the controller knows."""


class Host(Protocol):
    """Where connections are accepted."""

    @property
    def node_id(self) -> int | None:
        """None: there are no others that could be asked."""

    def epoch_of(self, lane: int) -> int:
        """In which it leads the lane, as it believes; -1: it does not, or it is the only one."""

    @property
    def process(self) -> Process | None:
        """None while nobody listens."""

    def accept(self) -> asyncio.BufferedProtocol: ...


class Hosts(Protocol):
    lane_count: int

    def lane_of(self, about: About) -> int: ...

    def choose(self, rng: Random, zombie_share: float, lane: int) -> Host:
        """Whom a client connects to next that has to do with this lane. `zombie_share` is how
        likely it asks one who believes to lead it and does so no more, if there is any."""


class SimulatedTransport(asyncio.Transport):
    """The broker's end of a connection."""

    def __init__(self, wire: "Wire", number: int) -> None:
        super().__init__({"peername": (f"client-{number}.test", 40_000), "sockname": ADDRESS})
        self._wire = wire
        self._protocol: asyncio.BufferedProtocol | None = None
        self._high_size = 64 * 1024
        self._low_size = 16 * 1024
        self._is_protocol_paused = False
        self._is_closing = False

    def attach(self, protocol: asyncio.BufferedProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_size = 64 * 1024 if high is None else high
        self._low_size = self._high_size // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._wire.to_client.held_size

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        if self._is_closing:
            return
        self._wire.to_client.write(b"".join(list_of_data))
        if self._wire.to_client.held_size > self._high_size and not self._is_protocol_paused:
            self._is_protocol_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def drained(self, held_size: int) -> None:
        if self._is_protocol_paused and held_size <= self._low_size:
            self._is_protocol_paused = False
            asyncio.get_running_loop().call_soon(self._resume, context=self._wire.broker.context)

    def _resume(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def pause_reading(self) -> None:
        self._wire.to_broker.pause()

    def resume_reading(self) -> None:
        self._wire.to_broker.resume()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._close()
        self._wire.to_client.end()

    def abort(self) -> None:
        self._close()
        self._wire.to_client.cut()

    def read_now(self) -> bool:
        """What has arrived and was not read yet, if anything has."""
        return self._wire.to_broker.arrive_now()

    def receive(self, content: bytes) -> None:
        """As the selector loop does it: an error of the protocol ends the connection."""
        view = memoryview(content)
        while view and not self._is_closing and self._protocol is not None:
            buffer = memoryview(self._protocol.get_buffer(len(view)))
            size = min(len(buffer), len(view))
            buffer[:size] = view[:size]
            view = view[size:]
            try:
                self._protocol.buffer_updated(size)
            except Exception as error:  # noqa: BLE001 - whatever it is, the loop is told.
                self.abort()
                self._report(error)
            # The protocol may not grow its buffer while there is a view of it.
            buffer.release()

    def receive_end(self) -> None:
        if not self._is_closing:
            assert self._protocol is not None
            self._protocol.eof_received()
            self.close()

    def _close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._wire.to_broker.stop()
            asyncio.get_running_loop().call_soon(self._lost, context=self._wire.broker.context)

    def _lost(self) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(None)

    def _report(self, error: BaseException) -> None:
        details: dict[str, Any] = {"message": "an error in a protocol", "exception": error}
        asyncio.get_running_loop().call_exception_handler(details)


class Wire:
    """One connection, seen from outside of both of its ends."""

    def __init__(
        self,
        number: int,
        client: Process,
        broker: Process,
        rng: Random,
        trace: Trace,
        receive: Callable[[bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.client = client
        self.broker = broker
        self._rng = rng
        transport = SimulatedTransport(self, number)
        self.transport = transport
        self.to_broker = Pipe(
            f"{number}>", broker, rng, trace, transport.receive, transport.receive_end
        )
        self.to_client = Pipe(f"{number}<", client, rng, trace, receive, on_lost)
        self.to_client.on_drained = transport.drained

    def lose(self, loss: Loss) -> None:
        if loss is Loss.RESET:
            self.to_broker.cut()
            self.to_client.cut()
        elif loss is Loss.LATE:
            self.to_broker.slow_down(self._rng.uniform(1, LATE_FACTOR_MAX))
            self.to_broker.end()
            self.to_client.cut()
        else:
            self.to_client.swallow()

    def broker_died(self, *, silently: bool) -> None:
        """What it sent may still arrive; a machine without power tells nobody that it is gone."""
        self.to_broker.stop()
        if self._rng.random() < 0.5:
            self.to_client.swallow()
        if not silently:
            self.to_client.end()


class Network:
    def __init__(self, rng: Random, trace: Trace) -> None:
        self._rng = rng
        self._trace = trace
        self._wires: list[Wire] = []
        self.connection_count = 0
        self.loss_counts: dict[Loss, int] = dict.fromkeys(Loss, 0)

    def connect(
        self,
        client: Process,
        host: Host,
        receive: Callable[[bytes], None],
        on_lost: Callable[[], None],
    ) -> Wire:
        """Raises ConnectionRefusedError if nobody listens."""
        broker = host.process
        if broker is None:
            raise ConnectionRefusedError
        self.connection_count += 1
        number = self.connection_count
        rng = Random(self._rng.random())
        wire = Wire(number, client, broker, rng, self._trace, receive, on_lost)
        self._wires.append(wire)
        broker.call(lambda: wire.transport.attach(host.accept()))
        return wire

    def lose_one(self) -> None:
        """Some connection that is in use ends in some way."""
        self._wires = [
            wire for wire in self._wires if wire.broker.is_alive and not wire.transport.is_closing()
        ]
        if self._wires:
            self.lose(self._rng.choice(self._wires), self._rng.choice(tuple(Loss)))

    def lose(self, wire: Wire, loss: Loss) -> None:
        self.loss_counts[loss] += 1
        wire.lose(loss)

    def lose_some(self, rng: Random, is_meant: Callable[[Wire], bool]) -> None:
        """One of those that this is true of, if there are any."""
        meant = [wire for wire in self._wires if wire.broker.is_alive and is_meant(wire)]
        if meant:
            self.lose(rng.choice(meant), rng.choice(tuple(Loss)))

    def silence(self, is_meant: Callable[[Wire], bool]) -> list[Wire]:
        """Nothing arrives over these any more, and nobody is told."""
        silenced = self._of(is_meant)
        for wire in silenced:
            wire.to_broker.swallow()
            wire.to_client.swallow()
        return silenced

    def client_died(self, client: Process) -> None:
        for wire in self._of(lambda wire: wire.client is client):
            self.lose(wire, self._rng.choice((Loss.RESET, Loss.LATE)))

    def broker_died(self, broker: Process, *, silently: bool) -> None:
        for wire in self._of(lambda wire: wire.broker is broker):
            wire.broker_died(silently=silently)

    def _of(self, is_meant: Callable[[Wire], bool]) -> list[Wire]:
        meant = [wire for wire in self._wires if is_meant(wire)]
        self._wires = [wire for wire in self._wires if not is_meant(wire)]
        return meant

"""The simulated network keeps bytes in order, whatever else it does to them."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from semel.verify.world.loop import Process, Trace, simulate
from semel.verify.world.network import Loss, Network, Wire

SENT = bytes(range(256)) * 4


class Listener(asyncio.BufferedProtocol):
    """Takes what comes in small pieces, and can answer."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.piece_count = 0
        self.is_lost = False
        self.is_paused = False
        self.transport: asyncio.Transport
        self._buffer = bytearray(100)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.piece_count += 1
        self.received += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False


class Scene:
    """A client, a listener and the wire between them."""

    node_id = None

    def __init__(self, seed: int) -> None:
        self.process: Process | None = Process("broker")
        self.client = Process("client")
        self.listener = Listener()
        self.received = bytearray()
        self.is_lost = False
        trace = Trace(asyncio.get_running_loop())
        self.network = Network(Random(seed), trace)
        self.wire: Wire = self.network.connect(self.client, self, self._receive, self._lost)

    def accept(self) -> asyncio.BufferedProtocol:
        return self.listener

    def epoch_of(self, lane: int) -> int:
        return -1

    def _receive(self, content: bytes) -> None:
        self.received += content

    def _lost(self) -> None:
        self.is_lost = True


def play(act: Callable[[Scene], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    async def main() -> None:
        await act(Scene(seed))

    simulate(seed, main)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_once_and_in_order_however_they_are_cut(seed: int) -> None:
    async def act(scene: Scene) -> None:
        for start in range(0, len(SENT), 64):
            scene.wire.to_broker.write(SENT[start : start + 64])
            scene.listener.transport.writelines(
                [SENT[start : start + 32], SENT[start + 32 : start + 64]]
            )
            await asyncio.sleep(0.0001)
        await asyncio.sleep(10)
        assert scene.listener.received == scene.received == SENT
        assert scene.listener.piece_count > 1

    play(act, seed)


def test_a_reset_is_heard_by_both_sides() -> None:
    async def act(scene: Scene) -> None:
        scene.wire.lose(Loss.RESET)
        await asyncio.sleep(10)
        assert scene.listener.is_lost
        assert scene.is_lost

    play(act)


def test_what_a_client_sent_before_it_gave_up_still_arrives() -> None:
    async def act(scene: Scene) -> None:
        scene.wire.to_broker.write(SENT)
        scene.wire.lose(Loss.LATE)
        scene.listener.transport.write(b"a reply that no one gets")
        await asyncio.sleep(100)
        assert scene.listener.received == SENT
        assert scene.listener.is_lost
        assert scene.is_lost
        assert not scene.received

    play(act)


def test_a_silent_connection_tells_its_client_nothing() -> None:
    async def act(scene: Scene) -> None:
        scene.wire.lose(Loss.SILENT)
        scene.wire.to_broker.write(SENT)
        scene.listener.transport.write(b"a reply that no one gets")
        await asyncio.sleep(100)
        assert scene.listener.received == SENT
        assert not scene.received
        assert not scene.is_lost

    play(act)


def test_what_was_silenced_tells_nobody_until_it_is_found_dead() -> None:
    async def act(scene: Scene) -> None:
        silenced = scene.network.silence(lambda wire: True)
        scene.wire.to_broker.write(SENT)
        scene.listener.transport.write(SENT)
        await asyncio.sleep(100)
        assert silenced == [scene.wire]
        assert (scene.listener.is_lost, scene.is_lost) == (False, False)
        scene.network.lose(scene.wire, Loss.RESET)
        await asyncio.sleep(10)
        assert (scene.listener.is_lost, scene.is_lost) == (True, True)
        assert not scene.listener.received
        assert not scene.received

    play(act)


def test_a_protocol_that_does_not_read_is_not_given_more() -> None:
    async def act(scene: Scene) -> None:
        scene.listener.transport.pause_reading()
        scene.wire.to_broker.write(SENT)
        await asyncio.sleep(10)
        assert not scene.listener.received
        scene.listener.transport.resume_reading()
        await asyncio.sleep(10)
        assert scene.listener.received == SENT

    play(act)


def test_a_writer_is_paused_until_its_bytes_have_left() -> None:
    async def act(scene: Scene) -> None:
        scene.listener.transport.set_write_buffer_limits(high=100)
        scene.listener.transport.write(SENT)
        was_paused = scene.listener.is_paused
        await asyncio.sleep(10)
        assert (was_paused, scene.listener.is_paused) == (True, False)
        assert scene.received == SENT

    play(act)


def test_nothing_reaches_a_dead_broker() -> None:
    async def act(scene: Scene) -> None:
        assert scene.process is not None
        scene.wire.to_broker.write(SENT)
        scene.process.die()
        scene.network.broker_died(scene.process, silently=False)
        await asyncio.sleep(10)
        assert not scene.listener.received
        assert scene.is_lost

    play(act)


def test_no_one_listens_no_one_connects() -> None:
    async def act(scene: Scene) -> None:
        scene.process = None
        with pytest.raises(ConnectionRefusedError):
            scene.network.connect(scene.client, scene, lambda _: None, lambda: None)

    play(act)

"""Bytes one way through a simulated network: in order, cut anywhere, late by what chance wills."""

import asyncio
from collections.abc import Callable
from random import Random

from semel.verify.simulated_loop import Process
from semel.verify.trace import Trace

DELAY_S_MEAN = 0.0008


class Pipe:
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

"""The clocks and the dice of a simulated machine."""

import asyncio
from random import Random

START_MS = 1_700_000_000_000


class SimulatedClock:
    """The loop's time, and a wall clock that someone may set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.error_ms = 0
        """How far the wall clock is ahead."""

    def wall_ms(self) -> int:
        return START_MS + self.error_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)


class SeededRandomness:
    def __init__(self, seed: object) -> None:
        self._random = Random(f"tokens {seed}")

    def token_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

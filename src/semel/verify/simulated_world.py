"""The clock and the dice of a simulated machine."""

import asyncio
from random import Random

START_MS = 1_700_000_000_000


class SimulatedClock:
    """Wall-clock time over the loop's; a machine's clock may be off from that of another start."""

    def __init__(self, loop: asyncio.AbstractEventLoop, error_ms: int = 0) -> None:
        self._loop = loop
        self._error_ms = error_ms

    def now_ms(self) -> int:
        return START_MS + self._error_ms + int(self._loop.time() * 1000)


class SeededRandomness:
    def __init__(self, seed: object) -> None:
        self._random = Random(f"tokens {seed}")

    def token_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

"""What the state machines may not touch: the clock and the dice, as protocols.

The real ones are here and nowhere else; the simulator brings its own.
"""

import random
import time
from typing import Protocol


class Clock(Protocol):
    """Time since 1970 in milliseconds, as Kafka writes it into records."""

    def now_ms(self) -> int: ...


class Randomness(Protocol):
    """A source of identifiers. Seeded in the simulator."""

    def token_bytes(self, size: int) -> bytes: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SystemRandomness:
    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def token_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

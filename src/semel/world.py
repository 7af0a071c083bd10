"""What the state machines may not touch: the clocks and the dice, as protocols.

The real ones are here and nowhere else; the simulator brings its own.
"""

import random
import time
from typing import Final, Protocol

SPENT_NS: Final = time.perf_counter_ns
"""A clock for how long the process works at something. Nothing that lasts is decided by it."""


class Clock(Protocol):
    """The two clocks of a machine."""

    def wall_ms(self) -> int:
        """Since 1970, as Kafka writes it into records. It may be set ahead or back at any time."""

    def monotonic_ms(self) -> int:
        """Since no matter when. It passes as time does, and is never set."""


class Moment:
    """When something happens: by the time that is counted, and by the time that is shown."""

    __slots__ = ("now_ms", "wall_ms")

    def __init__(self, now_ms: int, wall_ms: int) -> None:
        self.now_ms = now_ms
        """The lane's own time, by which everything ends and expires."""
        self.wall_ms = wall_ms
        """What records say."""


class Randomness(Protocol):
    """A source of identifiers. Seeded in the simulator."""

    def token_bytes(self, size: int) -> bytes: ...


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class SystemRandomness:
    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def token_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

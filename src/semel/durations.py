"""How long things took: counted in buckets that double, as cheap as a count of each must be."""

from typing import Final

SHORTEST_S: Final = 64e-6
"""The bound of the first bucket."""
BUCKET_COUNT: Final = 20
"""With bounds; one more has all that took longer than the last of them, 34 seconds."""
BOUNDS_S: Final = tuple(SHORTEST_S * 2**number for number in range(BUCKET_COUNT))
_PER_SECOND: Final = 1 / SHORTEST_S


class Durations:
    """Read by another thread while it counts, so that the sum may be newer than the counts."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (BUCKET_COUNT + 1)
        self.sum_s = 0.0

    def add(self, duration_s: float) -> None:
        number = int(duration_s * _PER_SECOND).bit_length()
        self.counts[min(number, BUCKET_COUNT)] += 1
        self.sum_s += duration_s

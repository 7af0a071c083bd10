"""How long things took: counted in buckets that double, as cheap as a count of each must be."""

from typing import Final

SHORTEST_S: Final = 64e-6
"""The bound of the first bucket."""
BUCKET_COUNT: Final = 20
"""With bounds that are shown; what took longer than the last of them, 34 seconds, is one more."""
BOUNDS_S: Final = tuple(SHORTEST_S * 2**number for number in range(BUCKET_COUNT))
_PER_SECOND: Final = 1 / SHORTEST_S
_DOUBLINGS: Final = 64
"""As many as anything takes, so that none has to be compared with a largest one."""


class Durations:
    """Read by another thread while it counts, so that the sum may be newer than the counts."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * _DOUBLINGS
        """Of each doubling, also those that no bound is shown for."""
        self.sum_s = 0.0

    def add(self, duration_s: float, count: int = 1) -> None:
        """So many took as long."""
        self.counts[int(duration_s * _PER_SECOND).bit_length()] += count
        self.sum_s += duration_s * count

    def add_all(self, others: "Durations") -> None:
        self.sum_s += others.sum_s
        self.counts = [own + other for own, other in zip(self.counts, others.counts, strict=True)]

    @property
    def by_bound(self) -> list[int]:
        """For each bound those that were shorter, and not than the one before; and the rest."""
        counts = self.counts.copy()
        return [*counts[:BUCKET_COUNT], sum(counts[BUCKET_COUNT:])]

"""What a volume is to be made of, and what came of it: the values that pass between a lane and who
makes its volumes, which may be a process of its own."""

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from semel.errors import CorruptJournal


class UnreadableBatch(CorruptJournal):
    """A batch of which the disk does not give the bytes."""

    def __init__(self, reason: str, number: int) -> None:
        super().__init__(reason)
        self.number = number
        """Of its partition."""


class Portion(NamedTuple):
    """What goes into the volume of one partition: batches that reach `start` or lie behind it."""

    number: int
    """As the lane counts partitions."""
    start: int


class MeasuringPlan(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What to look at."""

    sources: tuple[int, ...]
    """The positions at which the segments and volumes begin that are read, in their order."""
    numbers: bytes
    """Of the partitions that are there, as an array that rises: there may be very many."""
    starts: bytes
    """Of each, the offset from which on it is kept."""

    def portions(self) -> Iterator[Portion]:
        numbers, starts = array("q", self.numbers), array("q", self.starts)
        return map(Portion, numbers, starts)


class SettlingPlan(MeasuringPlan, frozen=True, array_like=True, tag=True):
    """What to put into a volume: all that is kept of these sources."""

    volume: int
    """Its number."""
    temporary: str
    """The ending of the names until it is whole; of one process alone."""


class Compaction(msgspec.Struct, frozen=True, array_like=True):
    """What of a partition is to be compacted: all from its start up to `end`, or as far as the keys
    of what is dirty can be held."""

    number: int
    start: int
    compacted_base: int | None
    """The position of the volume that holds what the last pass has left, if it has left any."""
    first_dirty_offset: int
    end: int
    aborted: tuple[tuple[int, int], ...]
    """Producer and first offset of what was aborted there, also by markers behind `end`."""
    dirty_aborted: tuple[tuple[int, int], ...]
    """Those of them with a batch or marker in what is dirty. The others are over by then: what
    their producers have written since is not aborted."""
    aborted_before: tuple[tuple[int, int, int, int], ...]
    """Those of them that old checkpoints told of, which no source has, as rows of an index."""
    now_ms: int
    delete_retention_ms: int
    buffer_size: int


class CompactionPlan(msgspec.Struct, frozen=True, array_like=True, tag=True):
    volume: int
    temporary: str
    sources: tuple[int, ...]
    """As of a `SettlingPlan`."""
    compactions: tuple[Compaction, ...]
    """By rising number of the partition."""


class Compacted(msgspec.Struct, frozen=True, array_like=True):
    number: int
    end: int
    """Up to where, exclusively, the volume has all that is left."""
    byte_count: int


class Damaged(msgspec.Struct, frozen=True, array_like=True):
    """Something of a partition that was not what had been written."""

    number: int
    reason: str


class Made(msgspec.Struct, frozen=True, array_like=True):
    data_bytes: int
    index_bytes: int
    compacted: tuple[Compacted, ...] = ()
    damaged: tuple[Damaged, ...] = ()
    """A few of each partition at most. Those to be compacted are not among what is."""


class SourceSize(msgspec.Struct, frozen=True, array_like=True):
    """How much of a source there is, and how much of it lives."""

    live_bytes: int
    all_bytes: int
    damage: str | None = None
    """Why neither can be told."""

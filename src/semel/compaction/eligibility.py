"""Which part of a partition may be compacted, and whether it is worth a pass now."""

from collections.abc import Iterable
from typing import NamedTuple

from semel.types import Offset


class Extent(NamedTuple):
    """Batches of a partition that lie together, in a segment or a volume."""

    base_offset: Offset
    max_timestamp_ms: int
    """Of the records in it."""


def cleanable_end(
    last_stable_offset: Offset,
    active_base_offset: Offset,
    dirty: Iterable[Extent],
    now_ms: int,
    min_compaction_lag_ms: int,
) -> Offset:
    """Up to where, exclusively, records may be taken away by a pass that begins at `now_ms`; if it
    is not behind the first dirty offset, nothing is dirty.

    `dirty` are the extents behind the first dirty offset, in order. Nothing that is written to
    still, or whose transaction is open, is touched, and nothing from the first extent on that has
    a record younger than `min_compaction_lag_ms`.
    """
    end = min(last_stable_offset, active_base_offset)
    if min_compaction_lag_ms > 0:
        for extent in dirty:
            if extent.max_timestamp_ms > now_ms - min_compaction_lag_ms:
                return min(end, extent.base_offset)
    return end


class Dirtiness(NamedTuple):
    """A partition with respect to its next pass."""

    clean_size: int
    """Bytes before the first dirty offset."""
    dirty_size: int
    """Bytes from there to the cleanable end."""
    oldest_dirty_ms: int | None
    """The earliest time at which one of the dirty extents was begun; None if that is not known."""

    @property
    def ratio(self) -> float:
        """What a pass is worth: the filthiest partition comes first."""
        total = self.clean_size + self.dirty_size
        return self.dirty_size / total if total else 0.0

    def is_eligible(
        self, now_ms: int, min_cleanable_dirty_ratio: float, max_compaction_lag_ms: int
    ) -> bool:
        if self.dirty_size == 0:
            return False
        return self.ratio > min_cleanable_dirty_ratio or self.is_overdue(
            now_ms, max_compaction_lag_ms
        )

    def is_overdue(self, now_ms: int, max_compaction_lag_ms: int) -> bool:
        """Whether a record has been superseded or deleted, and readable, for too long, perhaps."""
        if self.oldest_dirty_ms is None:
            return False
        return self.oldest_dirty_ms < now_ms - max(max_compaction_lag_ms, 0)

"""Whether it is worth a pass to compact a partition now."""

from typing import NamedTuple


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

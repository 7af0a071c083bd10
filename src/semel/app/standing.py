"""How the partitions of a member stand: which rest after a failure, which go record by record."""

from collections.abc import Iterable

from semel.app.patience import Patience
from semel.app.turn import Outcome
from semel.types import TopicPartition


class Standing:
    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._attempts: dict[TopicPartition, tuple[int, int]] = {}
        """The offset that the partition stands still at, and how often it has failed."""
        self._wake_at_ms: dict[TopicPartition, float] = {}
        self._doubtful: dict[TopicPartition, int] = {}

    def attempts_of(self, place: TopicPartition, offset: int) -> int:
        failed_at, count = self._attempts.get(place, (offset, 0))
        return count if failed_at == offset else 0

    @property
    def resting(self) -> frozenset[TopicPartition]:
        return frozenset(self._wake_at_ms)

    @property
    def goes_record_by_record(self) -> bool:
        return bool(self._doubtful)

    def done(self, offsets: dict[TopicPartition, int]) -> None:
        """These are committed."""
        for place, offset in offsets.items():
            self._attempts.pop(place, None)
            if offset >= self._doubtful.get(place, offset + 1):
                del self._doubtful[place]

    def failed(self, outcome: Outcome, now_ms: float, dice: float) -> None:
        """Let the partitions that did not go well rest for a while."""
        for place, (record, _, attempt) in outcome.failures.items():
            self._attempts[place] = (record.offset, attempt)
            self._wake_at_ms[place] = now_ms + self._patience.pause_ms(attempt, dice)
        for place, offset in outcome.doubtful.items():
            self._doubtful[place] = max(offset, self._doubtful.get(place, offset))
            self._wake_at_ms[place] = now_ms + self._patience.pause_ms(1, dice)

    def wake_at_ms(self) -> float | None:
        return min(self._wake_at_ms.values(), default=None)

    def wake(self, now_ms: float) -> list[TopicPartition]:
        """The partitions that have rested long enough."""
        awake = [place for place, at_ms in self._wake_at_ms.items() if at_ms <= now_ms]
        for place in awake:
            del self._wake_at_ms[place]
        return awake

    def forget(self, places: Iterable[TopicPartition]) -> None:
        """These belong to another member now."""
        for place in places:
            self._attempts.pop(place, None)
            self._wake_at_ms.pop(place, None)
            self._doubtful.pop(place, None)

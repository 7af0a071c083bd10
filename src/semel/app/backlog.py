"""The backlog of a member: what is held back of its partitions, and which of them rest.

Records that were polled and are not done stay here, in order, and their partition is not polled
until they are. A partition rests after a failure. Where one record of many failed them all, they
go in smaller and smaller parts until it is found.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from semel.app.cycle import CycleOutcome, Doubt
from semel.app.failure import Failure
from semel.app.retry_policy import RetryPolicy
from semel.client.consuming.record import Record
from semel.types import TopicPartition


class Backlog:
    def __init__(self, retry_policy: RetryPolicy) -> None:
        self._retry_policy = retry_policy
        self._held: dict[TopicPartition, deque[Record]] = {}
        self._attempts: dict[TopicPartition, tuple[int, int]] = {}
        """The offset that the partition stands still at, and how often it has failed."""
        self._given_up: dict[TopicPartition, Failure] = {}
        self._wake_at_ms: dict[TopicPartition, float] = {}
        self._doubts: dict[TopicPartition, Doubt] = {}

    @property
    def held(self) -> frozenset[TopicPartition]:
        """Partitions with records to be done before any that are polled."""
        return frozenset(self._held)

    @property
    def held_count(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def is_resting(self) -> bool:
        return bool(self._wake_at_ms)

    def attempts_of(self, partition: TopicPartition, offset: int) -> int:
        failed_at, count = self._attempts.get(partition, (offset, 0))
        return count if failed_at == offset else 0

    def given_up(self, partition: TopicPartition, offset: int) -> Failure | None:
        """Why the record at this offset is not to be tried again."""
        failure = self._given_up.get(partition)
        return failure if failure is not None and failure.record.offset == offset else None

    # What came of a cycle

    def hold(self, records: Iterable[Record], undone: Mapping[TopicPartition, int]) -> None:
        """Keep those that were not done; they come before what is held already."""
        left = [
            each
            for each in records
            if each.offset >= undone.get(each.topic_partition, each.offset + 1)
        ]
        for record in left:
            self._held.setdefault(record.topic_partition, deque())
        for record in reversed(left):
            self._held[record.topic_partition].appendleft(record)

    def done(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These are committed."""
        for partition, offset in offsets.items():
            self._attempts.pop(partition, None)
            self._given_up.pop(partition, None)
            doubt = self._doubts.pop(partition, None)
            if doubt is not None and offset < doubt.until:
                # The rest is less suspicious now.
                count_max = 2 * doubt.record_count_max
                self._doubts[partition] = doubt._replace(record_count_max=count_max)

    def failed(self, outcome: CycleOutcome, now_ms: float, random: float) -> None:
        """Let the partitions that did not go well rest for a while."""
        for partition, (record, _, attempt) in outcome.failures.items():
            self._attempts[partition] = (record.offset, attempt)
            self._wake_at_ms[partition] = now_ms + self._retry_policy.pause_ms(attempt, random)
        for partition, doubt in outcome.doubts.items():
            known = self._doubts.get(partition)
            if known is None:
                self._doubts[partition] = doubt
                self._wake_at_ms[partition] = now_ms + self._retry_policy.pause_ms(1, random)
            else:
                self._doubts[partition] = doubt._replace(until=max(doubt.until, known.until))

    def too_slow(self, failure: Failure, *, is_given_up: bool) -> None:
        """It failed by the loss of its partition, and is known again if that comes back."""
        partition = failure.record.topic_partition
        self._attempts[partition] = (failure.record.offset, failure.attempt)
        if is_given_up:
            self._given_up[partition] = failure

    # What is next

    def wake(self, now_ms: float) -> float | None:
        """End the rests that are over; when the next one is, if nothing can be taken before."""
        for partition in [
            partition for partition, at_ms in self._wake_at_ms.items() if at_ms <= now_ms
        ]:
            del self._wake_at_ms[partition]
        if any(partition not in self._wake_at_ms for partition in self._held):
            return now_ms
        return min(self._wake_at_ms.values(), default=None)

    def take(self, count_max: int) -> list[Record]:
        """What is to be worked on next, of each partition in its turn."""
        ready = [partition for partition in self._held if partition not in self._wake_at_ms]
        if ready and ready[0] in self._doubts:
            part_max = self._doubts[ready[0]].record_count_max
            return self._take_from(ready[0], min(part_max, count_max))
        taken: list[Record] = []
        for partition in ready:
            if partition not in self._doubts and len(taken) < count_max:
                taken += self._take_from(partition, count_max - len(taken))
        return taken

    def _take_from(self, partition: TopicPartition, count_max: int) -> list[Record]:
        held = self._held.pop(partition)
        taken = [held.popleft() for _ in range(min(count_max, len(held)))]
        if held:
            self._held[partition] = held  # At the end: the others are next.
        return taken

    # What is over

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """What is held of these will be polled again, by this member or by another one.

        How often a record has failed here is still true when its partition comes back. A slow one
        costs its member the partition each time, and would never be given up otherwise.
        """
        for partition in partitions:
            self._held.pop(partition, None)
            self._wake_at_ms.pop(partition, None)
            self._doubts.pop(partition, None)

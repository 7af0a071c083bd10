"""The offsets of one group: committed, pending in open transactions, and their expiry.

Law: of two commits of a partition the later in the log wins, whichever became final first.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from semel.groups.records import NO_TIMESTAMP, OffsetCommitted
from semel.types import NO_PRODUCER_ID, ProducerId, TopicPartition


class StoredOffset(NamedTuple):
    record: OffsetCommitted
    order: int
    """Rises with the place in the log."""
    stored_ms: int
    """When that was, by the time in which retention is counted."""


class Offsets:
    def __init__(self) -> None:
        self.committed: dict[TopicPartition, StoredOffset] = {}
        self.pending: dict[ProducerId, dict[TopicPartition, StoredOffset]] = {}

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending)

    def store(self, stored: StoredOffset, producer_id: ProducerId) -> None:
        partition = stored.record.topic_partition
        if producer_id == NO_PRODUCER_ID:
            self.committed[partition] = stored
        else:
            self.pending.setdefault(producer_id, {})[partition] = stored

    def forget(self, partition: TopicPartition) -> None:
        """Also what is pending: it stands earlier in the log, so its marker must not revive it."""
        self.committed.pop(partition, None)
        for producer_id, offsets in list(self.pending.items()):
            offsets.pop(partition, None)
            if not offsets:
                del self.pending[producer_id]

    def complete(self, producer_id: ProducerId, committed: bool) -> None:
        offsets = self.pending.pop(producer_id, {})
        if not committed:
            return
        for partition, stored in offsets.items():
            current = self.committed.get(partition)
            if current is None or current.order < stored.order:
                self.committed[partition] = stored

    def is_pending(self, partition: TopicPartition) -> bool:
        return any(partition in offsets for offsets in self.pending.values())

    def partitions(self) -> set[TopicPartition]:
        return set(self.committed).union(*self.pending.values())

    def expired(
        self,
        now_ms: int,
        retention_ms: int,
        since_ms: int,
        kept: Callable[[str], bool],
    ) -> Iterator[TopicPartition]:
        """Partitions whose offset has outlived its retention.

        It counts from the commit, or from `since_ms`, when the group lost its last member, if
        that was later; a retention given with the commit overrides both. Topics that are `kept`
        are still read.
        """
        for partition, (record, _, stored_ms) in self.committed.items():
            if kept(partition.topic) or self.is_pending(partition):
                continue
            if record.expire_timestamp_ms != NO_TIMESTAMP:
                own_retention_ms = record.expire_timestamp_ms - record.commit_timestamp_ms
                expires_at_ms = stored_ms + own_retention_ms
            else:
                expires_at_ms = max(stored_ms, since_ms) + retention_ms
            if expires_at_ms <= now_ms:
                yield partition

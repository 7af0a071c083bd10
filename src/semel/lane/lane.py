"""A lane: one journal, the state that its frames make, and the law that binds the two.

    Decide, append and apply in one step, without awaiting. Then wait until the journal is durable
    up to that point before anything leaves the lane: a reply, a readable record.

A decision made on state that is not yet durable is appended behind that state, so it survives
only if that state does. A crash loses a suffix of the journal and nothing else.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from semel.errors import CorruptJournal
from semel.groups import records as group_records
from semel.groups.coordinator import Groups
from semel.groups.settings import GroupSettings
from semel.journal.journal import Journal
from semel.lane import facts, frame, image
from semel.lane.draft import Draft
from semel.lane.state import LaneState
from semel.lane.topics import OFFSETS_TOPIC
from semel.log.partition import Partition
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.records.records import decode_batch
from semel.types import Offset, Position, Term
from semel.world import Clock, Randomness


class LaneSettings(NamedTuple):
    groups: GroupSettings
    offsets_partition_count: int = 50


class Lane:
    def __init__(
        self, journal: Journal, settings: LaneSettings, clock: Clock, randomness: Randomness
    ) -> None:
        self.journal = journal
        self.settings = settings
        self.clock = clock
        self.randomness = randomness
        self.unsettled: deque[tuple[Position, Partition, Offset]] = deque()
        """Ends of partitions that become readable when the journal is durable up to a position."""
        groups = Groups(settings.groups, randomness)
        if journal.checkpoint is None:
            self.state = LaneState(groups)
        else:
            self.state = image.restore(journal.checkpoint, groups)
        for position, payload in journal.replay():
            self._replay(position, payload)
        for partition in self.state.partitions.values():
            partition.high_watermark = partition.log_end_offset

    async def start(self, on_failure: Callable[[BaseException], None]) -> None:
        """Say in the journal who has opened it, and return when that is durable.

        The term rises unless it is certain that every acknowledged byte is still there: a killed
        process loses nothing, since the kernel has the bytes; a power loss may lose some.
        """
        journal = self.journal
        journal.start(
            asyncio.get_running_loop(), self._on_durable, lambda: image.take(self.state), on_failure
        )
        state = self.state
        is_certain = (
            journal.certain
            and state.identity is not None
            and journal.identity.proves_same(state.identity)
        )
        term = state.term if is_certain else Term(state.term + 1)
        draft = self.draft(FACT_SIZE_MAX, urgent=True)
        if not state.cluster_id:
            draft.add_fact(facts.ClusterNamed(self.randomness.token_bytes(CLUSTER_ID_SIZE)))
        draft.add_fact(facts.Opened(term, journal.identity))
        await self.durable(draft.append())
        state.groups.recovered(self.clock.now_ms())

    # Deciding

    def draft(self, size: int, *, urgent: bool = False) -> Draft:
        """Begin a step that appends at most `size` bytes of batches and facts.

        Raises JournalFull, and then nothing has changed. What frees room or ends a transaction
        is urgent and may use the headroom that others must leave.
        """
        self.journal.reserve(size + frame.TIME_SIZE, urgent)
        return Draft(self, self.clock.now_ms())

    # Waiting

    async def durable(self, position: Position) -> None:
        """Return when the journal survives power loss up to `position`."""
        if position <= self.journal.durable:
            return
        reached = asyncio.get_running_loop().create_future()

        def settle() -> None:
            if not reached.done():
                reached.set_result(None)

        self.journal.when_durable(position, settle)
        await reached

    def _on_durable(self, position: Position) -> None:
        """Move the readable end of every partition together, before any reply is released."""
        unsettled = self.unsettled
        grown: set[Partition] = set()
        while unsettled and unsettled[0][0] <= position:
            _, partition, end = unsettled.popleft()
            partition.high_watermark = end
            if partition.watchers:
                grown.add(partition)
        for partition in grown:
            for tell in tuple(partition.watchers):
                tell()

    # Recovery

    def _replay(self, position: Position, payload: memoryview) -> None:
        now_ms = frame.read_time(payload, position)
        for entry in frame.read_entries(payload, position):
            if entry.kind == frame.FACT:
                fact = facts.decode(entry.body)
                self._forget_index(fact)
                self.state.apply(fact)
            elif entry.kind == frame.BATCH:
                self._replay_batch(entry, now_ms)
            else:
                raise CorruptJournal(f"entry at byte {entry.body_position}: kind {entry.kind}")

    def _replay_batch(self, entry: frame.Entry, now_ms: int) -> None:
        partition = self.state.partitions.get(entry.partition_number)
        if partition is None:
            raise CorruptJournal(
                f"entry at byte {entry.body_position}: no partition {entry.partition_number}"
            )
        header = record_batch.read(entry.body)
        base_offset = partition.append(
            header, fingerprint(header, entry.body), Term(header.leader_epoch), now_ms
        )
        if base_offset != header.base_offset:
            raise CorruptJournal(
                f"batch at byte {entry.body_position}: offset {header.base_offset} of "
                f"{partition.topic_partition}, whose log ends at {base_offset}"
            )
        self.journal.index.add(
            partition.number,
            base_offset,
            entry.body_position,
            len(entry.body),
            header.max_timestamp_ms,
        )
        if partition.topic_partition.topic == OFFSETS_TOPIC:
            for record in decode_batch(entry.body):
                decoded = group_records.decode(record.key or b"", record.value)
                if decoded is not None:
                    self.state.groups.apply(decoded)

    def _forget_index(self, fact: facts.AnyFact) -> None:
        if isinstance(fact, facts.TopicDeleted):
            self.drop_from_index(self.state.topics[fact.name].partitions)

    def drop_from_index(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self.journal.index.drop(partition.number)


CLUSTER_ID_SIZE = 16
FACT_SIZE_MAX = 64 * 2**10
"""Bytes. Room that is reserved for a step that writes a few facts."""


def fingerprint(header: BatchHeader, batch: memoryview) -> int:
    """What tells two batches with the same sequences apart.

    The checksum as produced; but a topic that stamps its own time changes that, so there it is
    a checksum of the records alone.
    """
    if header.is_log_append_time:
        return record_batch.records_checksum(batch)
    return header.checksum

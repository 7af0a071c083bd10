"""A frame in the making: batches and facts are applied as they are added, then appended at once.

A draft lives within one synchronous step. Room for it is reserved before anything is decided, so
that nothing between the first change of state and the append can fail.
"""

from typing import TYPE_CHECKING, Final

from semel.lane import facts, frame
from semel.log.partition import Partition
from semel.records.batch import PREFIX_SIZE, BatchHeader, stamp
from semel.types import Buffer, Offset, Position, ProducerEpoch, ProducerId
from semel.world import Moment

if TYPE_CHECKING:
    from semel.lane.lane import Lane

JOINED_SIZE_MAX: Final = 512
"""Bytes. A smaller batch is copied into one piece with its neighbours."""


class Draft:
    __slots__ = ("_batches", "_lane", "_parts", "_size", "_size_max", "_small", "at")

    def __init__(self, lane: "Lane", at: Moment, size_max: int) -> None:
        self._lane = lane
        self._parts: list[Buffer] = []
        # Small pieces are joined: each part costs the checksum and the write a call of its own.
        self._small = bytearray(frame.pack_head(frame.LAYOUT, at.now_ms, at.wall_ms))
        self._size = frame.HEAD_SIZE
        self._size_max = size_max
        self._batches: list[tuple[Partition, int, int, int, int]] = []
        self.at = at

    @property
    def is_empty(self) -> bool:
        return self._size == frame.HEAD_SIZE

    def add_batch(
        self, partition: Partition, header: BatchHeader, fingerprint: int, batch: memoryview
    ) -> Offset:
        """Take an admitted batch as the partition's next; gives the offset of its first record."""
        self._lane.is_in_step = True
        base_offset = partition.append(header, fingerprint, self._lane.state.term, self.at.now_ms)
        self._add(partition, header, base_offset, batch)
        return base_offset

    def add_marker(
        self, partition: Partition, header: BatchHeader, batch: memoryview, *, committed: bool
    ) -> None:
        """End the transaction of the marker's producer in this partition."""
        self._lane.is_in_step = True
        offset = partition.end_transaction(
            ProducerId(header.producer_id),
            ProducerEpoch(header.producer_epoch),
            committed,
            self._lane.state.term,
            self.at.now_ms,
        )
        self._add(partition, header, offset, batch)

    def _add(
        self, partition: Partition, header: BatchHeader, base_offset: Offset, batch: memoryview
    ) -> None:
        size = len(batch)
        small = self._small
        small += frame.pack_entry(frame.BATCH, partition.number, size)
        small += stamp(header, base_offset, self._lane.state.term)
        if size < JOINED_SIZE_MAX:
            small += batch[PREFIX_SIZE:]
        else:
            self._parts += (small, batch[PREFIX_SIZE:])
            self._small = bytearray()
        at = self._size + frame.ENTRY_SIZE
        self._batches.append((partition, base_offset, at, size, header.max_timestamp_ms))
        self._size = at + size

    def add_fact(self, fact: facts.AnyFact) -> None:
        self._lane.is_in_step = True
        self._lane.state.apply(fact)
        body = facts.encode(fact)
        self._small += frame.pack_entry(frame.FACT, 0, len(body)) + body
        self._size += frame.ENTRY_SIZE + len(body)

    def append(self) -> Position:
        """Fix the order. What was decided here may leave the lane once this position is durable."""
        return self._lane.journal.end if self.is_empty else self.append_moment()

    def append_moment(self) -> Position:
        """As `append`, also of a frame that says nothing but when it was made."""
        lane = self._lane
        journal = lane.journal
        last = lane.state.last_moment
        assert last is None or last.now_ms <= self.at.now_ms, "time goes back"
        if self._small:
            self._parts.append(self._small)
        assert self._size <= self._size_max, "room for this frame was not reserved"
        start = journal.append(self._parts, self._size)
        end = journal.end
        for partition, base_offset, at, size, max_timestamp_ms in self._batches:
            journal.index.add(partition.number, base_offset, start + at, size, max_timestamp_ms)
            lane.unsettled.append((end, partition, partition.log_end_offset))
        lane.state.passed(self.at)
        lane.is_in_step = False
        return end

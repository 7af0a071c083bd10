"""What a lane keeps in its journal, checked without opening it: frames, batches, the state."""

from collections.abc import Iterator

from semel.errors import CorruptJournal, CorruptMessage
from semel.journal.file.walk import StoredFrame
from semel.journal.frames import HEADER_SIZE
from semel.lane import facts
from semel.lane.facts import AnyFact
from semel.lane.frame import BatchEntry, decode
from semel.lane.partition_names import PartitionNames, restored
from semel.lane.state import LaneState
from semel.records.batch import verify_checksum
from semel.types import Position


class LaneExaminer:
    """Offsets of a partition have no gap in the journal, so that one tells what is lost."""

    def __init__(self) -> None:
        self.batch_count = 0
        self._names = PartitionNames()
        self._state: LaneState | None = None
        self._ends: dict[int, int] = {}
        """Of the partitions that batches were found of, the next offset."""
        self._log_starts: dict[int, int] = {}
        self._missing: list[tuple[int, int, int]] = []
        """Partition numbers, with the first offset that is missing and the first that is not."""
        self._deleted: set[int] = set()

    def snapshot(self, stored: bytes) -> None:
        state = restored(stored)
        self._state = state
        self._names.learn_from(state)
        for number, partition in state.partitions.items():
            self._log_starts[number] = partition.log_start_offset

    def frame(self, frame: StoredFrame) -> Iterator[str]:
        position = Position(frame.header.position + HEADER_SIZE)
        try:
            decoded = decode(frame.payload, position)
        except (CorruptJournal, CorruptMessage) as error:
            yield str(error)
            return
        for entry in decoded.entries:
            if isinstance(entry, BatchEntry):
                yield from self._batch(entry)
            else:
                self._fact(entry)

    def _batch(self, batch: BatchEntry) -> Iterator[str]:
        self.batch_count += 1
        try:
            verify_checksum(batch.body, batch.header)
        except CorruptMessage:
            name = self._names.of(batch.number)
            yield f"wrong checksum of the batch of {name} at offset {batch.base_offset}"
        end = self._ends.get(batch.number)
        if end is not None and end < batch.base_offset:
            self._missing.append((batch.number, end, batch.base_offset))
        self._ends[batch.number] = batch.header.last_offset + 1

    def _fact(self, fact: AnyFact) -> None:
        self._names.learn(fact)
        if isinstance(fact, facts.TopicCreated):
            for number in range(fact.first_number, fact.first_number + fact.partition_count):
                self._ends[number] = 0
        elif isinstance(fact, facts.TopicDeleted):
            # Of this name there may be another one, which was made later.
            self._deleted.update(self._names.numbers_of(fact.name) & self._ends.keys())
        elif isinstance(fact, facts.RecordsDeleted):
            number = fact.partition_number
            self._log_starts[number] = max(self._log_starts.get(number, 0), fact.log_start_offset)

    def missing(self) -> Iterator[str]:
        state = self._state
        if state is not None:
            for number, partition in state.partitions.items():
                end = self._ends.get(number, partition.log_start_offset)
                if end < partition.log_end_offset:
                    self._missing.append((number, end, partition.log_end_offset))
        for number, first, end in sorted(self._missing):
            shown = max(first, self._log_starts.get(number, 0))
            if shown < end and number not in self._deleted:
                yield f"{self._names.of(number)} misses offsets {shown} to {end - 1}"

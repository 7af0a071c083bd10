"""What a lane keeps in its journal, checked without opening it: frames, batches, the state.

What volumes hold is only counted: whose it is, and up to where.
"""

from collections.abc import Iterator

from semel.errors import CorruptJournal, CorruptMessage
from semel.journal.file.volume_files import VolumeBatch
from semel.journal.file.walk import StoredFrame
from semel.journal.frames import HEADER_SIZE
from semel.lane import facts
from semel.lane.facts import AnyFact
from semel.lane.frame import BatchEntry, decode
from semel.lane.named_volumes import NamedVolumes
from semel.lane.partition_names import PartitionNames, restored
from semel.records.batch import verify_checksum
from semel.types import Position


class LaneExaminer:
    """Offsets of a partition have no gap in the journal, so that one tells what is lost."""

    builds_indexes = True

    def __init__(self) -> None:
        self.batch_count = 0
        self._names = PartitionNames()
        self._named: NamedVolumes | None = NamedVolumes()
        """None where what it is told does not follow from what it was told before."""
        self._start = 0
        """The position of the checkpoint: what frames before it say is in its state."""
        self._log_ends: dict[int, int] = {}
        """Of the partitions that the checkpoint knows."""
        self._settled_ends: dict[int, int] = {}
        """Up to where a partition lies in volumes, but for what is gone."""
        self._ends: dict[int, int] = {}
        """Of the partitions that batches were found of, the next offset."""
        self._log_starts: dict[int, int] = {}
        self._missing: list[tuple[int, int, int]] = []
        """Partition numbers, with the first offset that is missing and the first that is not."""
        self._deleted: set[int] = set()

    def snapshot(self, stored: bytes, position: int) -> None:
        state = restored(stored)
        self._start = position
        self._names.learn_from(state)
        for number, partition in state.partitions.items():
            self._log_starts[number] = partition.log_start_offset
            self._log_ends[number] = partition.log_end_offset
        self._named = NamedVolumes(state)

    def frame(self, frame: StoredFrame) -> Iterator[str]:
        position = Position(frame.header.position + HEADER_SIZE)
        try:
            decoded = decode(frame.payload, position)
        except (CorruptJournal, CorruptMessage) as error:
            yield str(error)
            return
        is_copied = any(isinstance(entry, facts.CopiedHere) for entry in decoded.entries)
        for entry in decoded.entries:
            if isinstance(entry, BatchEntry):
                if is_copied:
                    self._ends.pop(entry.number, None)
                yield from self._batch(entry)
            else:
                self._fact(entry)
        if self._named is not None and frame.header.position >= self._start:
            try:
                self._named.apply(decoded)
            except (CorruptJournal, KeyError):
                # A frame before it is lost; a start is refused.
                self._named = None

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

    def volumes(self) -> set[int] | None:
        return None if self._named is None else self._named.numbers()

    def volume_batch(self, batch: VolumeBatch) -> None:
        ends = self._settled_ends
        ends[batch.partition] = max(ends.get(batch.partition, 0), batch.header.last_offset + 1)

    def batch_in_words(self, partition: int, base_offset: int) -> str:
        return f"the batch of {self._names.of(partition)} at offset {base_offset}"

    def missing(self) -> Iterator[str]:
        for number, log_end in self._log_ends.items():
            end = self._ends.get(number, self._log_starts.get(number, 0))
            if end < log_end:
                self._missing.append((number, end, log_end))
        for number, first, end in sorted(self._missing):
            kept = self._log_starts.get(number, 0), self._settled_ends.get(number, 0)
            shown = max(first, *kept)
            if shown < end and number not in self._deleted:
                yield f"{self._names.of(number)} misses offsets {shown} to {end - 1}"

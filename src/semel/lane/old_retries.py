"""Looks for the original of a batch that is older than what its partition remembers.

A retry that comes very late would otherwise be refused as out of order although it was stored.
The search runs outside of any decision: what it finds is in the log and stays there. So the same
question always has the same answer, and the latest answers are kept.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from semel.lane.stored_batches import BATCHES_AT_ONCE, StoredBatches
from semel.lane.view import PartitionView
from semel.log.producers import NotRemembered
from semel.records import batch as record_batch
from semel.records.batch import BatchHeader
from semel.types import Offset

BATCHES_MAX: Final = 4096
BYTES_MAX: Final = 16 * 2**20
ANSWERS_KEPT_MAX: Final = 1024


class _Question(NamedTuple):
    """All that an answer depends on: below `below_offset` the log does not change."""

    partition_number: int
    from_offset: Offset
    below_offset: Offset
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    fingerprint: int


class OldRetries:
    def __init__(self, batches: StoredBatches) -> None:
        self._batches = batches
        self._answers: OrderedDict[_Question, Offset | None] = OrderedDict()

    async def find_original(
        self, partition: PartitionView, wanted: BatchHeader, fingerprint: int, missed: NotRemembered
    ) -> Offset | None:
        """The offset of the stored batch with the same producer, epoch, sequences and records."""
        question = _Question(
            partition.number,
            missed.from_offset,
            missed.below_offset,
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.base_sequence,
            wanted.record_count,
            fingerprint,
        )
        if question not in self._answers:
            self._answers[question] = await self._search(question)
            if len(self._answers) > ANSWERS_KEPT_MAX:
                self._answers.popitem(last=False)
        self._answers.move_to_end(question)
        return self._answers[question]

    async def _search(self, question: _Question) -> Offset | None:
        offset = question.below_offset
        size = 0
        for count in range(BATCHES_MAX):
            if count % BATCHES_AT_ONCE == 0:
                await self._batches.pause()
            location = await self._batches.find(question.partition_number, offset - 1)
            if location is None or location.base_offset >= offset or size > BYTES_MAX:
                return None
            header = await self._batches.header(location)
            if _is_same(header, question):
                stored = memoryview(await self._batches.read(location))
                is_original = record_batch.fingerprint(header, stored) == question.fingerprint
                return Offset(location.base_offset) if is_original else None
            if location.base_offset <= question.from_offset or _is_before(header, question):
                return None
            offset = Offset(location.base_offset)
            size += location.size
        return None


def _is_same(stored: BatchHeader, wanted: _Question) -> bool:
    return (
        stored.producer_id == wanted.producer_id
        and stored.producer_epoch == wanted.producer_epoch
        and stored.base_sequence == wanted.base_sequence
        and stored.record_count == wanted.record_count
        and not stored.is_control
    )


def _is_before(stored: BatchHeader, wanted: _Question) -> bool:
    """Whether the search has come to an older epoch of this producer."""
    return (
        stored.producer_id == wanted.producer_id and stored.producer_epoch < wanted.producer_epoch
    )

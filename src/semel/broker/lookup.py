"""Looks for the original of a batch that is older than what its partition remembers.

A retry that comes very late would otherwise be refused as out of order although it was stored.
The search runs outside of any decision: what it finds is in the log and stays there. So the same
question always has the same answer, and the latest answers are kept.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from semel.broker.turns import BATCHES_AT_ONCE, Turns
from semel.journal.seam import Journal
from semel.lane.producing import Incoming
from semel.log.producers import NotRemembered
from semel.records import batch as record_batch
from semel.records.batch import HEADER_SIZE, BatchHeader
from semel.types import Offset, Position

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


class Lookup:
    def __init__(self, journal: Journal, turns: Turns) -> None:
        self._journal = journal
        self._turns = turns
        self._answers: OrderedDict[_Question, Offset | None] = OrderedDict()

    async def find_original(self, incoming: Incoming, missed: NotRemembered) -> Offset | None:
        """The offset of the stored batch with the same producer, epoch, sequences and records."""
        wanted = incoming.header
        question = _Question(
            incoming.partition.number,
            missed.from_offset,
            missed.below_offset,
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.base_sequence,
            wanted.record_count,
            incoming.fingerprint,
        )
        if question not in self._answers:
            self._answers[question] = await self._search(question)
            if len(self._answers) > ANSWERS_KEPT_MAX:
                self._answers.popitem(last=False)
        self._answers.move_to_end(question)
        return self._answers[question]

    async def _search(self, question: _Question) -> Offset | None:
        journal = self._journal
        offset = question.below_offset
        size = 0
        for count in range(BATCHES_MAX):
            if count % BATCHES_AT_ONCE == 0:
                await self._turns.next()
            place = journal.index.find(question.partition_number, offset - 1)
            if place is None or place.base_offset >= offset or size > BYTES_MAX:
                return None
            header = record_batch.read_header(
                await journal.read(Position(place.position), HEADER_SIZE)
            )
            if _is_same(header, question):
                stored = memoryview(await journal.read(Position(place.position), place.size))
                is_original = record_batch.fingerprint(header, stored) == question.fingerprint
                return Offset(place.base_offset) if is_original else None
            if place.base_offset <= question.from_offset or _is_before(header, question):
                return None
            offset = Offset(place.base_offset)
            size += place.size
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

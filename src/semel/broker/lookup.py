"""Looks for the original of a batch that is older than what its partition remembers.

A retry that comes very late would otherwise be refused as out of order although it was stored.
The search runs outside of any decision: what it finds is in the log and stays there.
"""

import asyncio

from semel.broker.incoming import Incoming
from semel.journal.journal import Journal
from semel.log.producers import NotRemembered
from semel.records import batch as record_batch
from semel.records.batch import HEADER_SIZE, BatchHeader
from semel.types import Offset, Position

BATCHES_MAX = 4096
BYTES_MAX = 16 * 2**20
BATCHES_AT_ONCE = 64
"""Headers that are read before others get their turn."""


async def find_original(
    journal: Journal, incoming: Incoming, missed: NotRemembered
) -> Offset | None:
    """The offset of the stored batch with the same producer, epoch, sequences and records."""
    offset = missed.below_offset
    size = 0
    for count in range(1, BATCHES_MAX + 1):
        place = journal.index.find(incoming.partition.number, offset - 1)
        if place is None or place.base_offset >= offset or size > BYTES_MAX:
            return None
        header = record_batch.read_header(journal.read(Position(place.position), HEADER_SIZE))
        if _is_same(header, incoming.header):
            stored = memoryview(journal.read(Position(place.position), place.size))
            is_original = record_batch.fingerprint(header, stored) == incoming.fingerprint
            return Offset(place.base_offset) if is_original else None
        if place.base_offset <= missed.from_offset or _is_before(header, incoming.header):
            return None
        offset = Offset(place.base_offset)
        size += place.size
        if count % BATCHES_AT_ONCE == 0:
            await asyncio.sleep(0)
    return None


def _is_same(stored: BatchHeader, wanted: BatchHeader) -> bool:
    return (
        stored.producer_id == wanted.producer_id
        and stored.producer_epoch == wanted.producer_epoch
        and stored.base_sequence == wanted.base_sequence
        and stored.record_count == wanted.record_count
        and not stored.is_control
    )


def _is_before(stored: BatchHeader, wanted: BatchHeader) -> bool:
    """Whether the search has come to an older epoch of this producer."""
    return (
        stored.producer_id == wanted.producer_id and stored.producer_epoch < wanted.producer_epoch
    )

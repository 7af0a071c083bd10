"""What a reader may see of fetched batches: no markers, and nothing of an aborted transaction."""

from collections.abc import Sequence

from semel.errors import RecordListTooLarge
from semel.records.batch import BatchHeader, split
from semel.records.control import MarkerType, decode_marker
from semel.records.records import Record, decode_batch
from semel.types import Buffer
from semel.wire.messages.fetch import AbortedTransaction


def readable_records(
    batches: Buffer, fetch_offset: int, aborted: Sequence[AbortedTransaction]
) -> tuple[list[Record], int]:
    """The records from `fetch_offset` on, and the offset to fetch next.

    `aborted` lists the aborted transactions that overlap the batches, as a read_committed fetch
    gives them; it is empty when everything may be read.
    """
    records: list[Record] = []
    next_offset = fetch_offset
    transactions = _AbortedTransactions(aborted)
    is_any_whole = False
    for header, batch in split(batches):
        is_any_whole = True
        next_offset = max(next_offset, header.last_offset + 1)
        if transactions.hides(header, batch):
            continue
        decoded = decode_batch(batch)
        # A fetch into the middle of a batch gets the whole batch.
        records += (record for record in decoded if record.offset >= fetch_offset)
    if len(batches) > 0 and not is_any_whole:
        raise RecordListTooLarge(f"a batch does not fit into the {len(batches)} bytes asked for")
    return records, next_offset


class _AbortedTransactions:
    """Walks along the batches: a transaction begins at its first offset and ends at its marker."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._upcoming = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._upcoming and self._upcoming[-1].first_offset <= header.last_offset:
            self._open.add(self._upcoming.pop().producer_id)
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None and marker.type == MarkerType.ABORT:
                self._open.discard(marker.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open

"""What a reader may see of fetched batches: no markers, and nothing of an aborted transaction."""

from collections.abc import Iterator, Sequence

from semel.errors import RecordListTooLarge
from semel.records.batch import BatchHeader, split, verify_checksum
from semel.types import Buffer
from semel.wire.messages.fetch import AbortedTransaction


def visible_batches(
    batches: Buffer, aborted: Sequence[AbortedTransaction]
) -> Iterator[tuple[int, BatchHeader]]:
    """Where each batch with records for the reader stands, and its header.

    `aborted` lists the aborted transactions that overlap the batches, as a read_committed fetch
    gives them; it is empty when everything may be read.
    """
    transactions = _AbortedTransactions(aborted)
    position = 0
    for header, batch in split(batches):
        if not transactions.hides(header, batch):
            if header.record_count:
                yield position, header
            else:
                # Nobody opens it, and yet its offsets count.
                verify_checksum(batch, header)
        position += header.size


def next_offset(batches: Buffer, fetch_offset: int) -> int:
    """The offset behind these batches, whether their records may be seen or not."""
    reached = None
    for header, _ in split(batches):
        reached = header.last_offset + 1
    if reached is None and len(batches) > 0:
        raise RecordListTooLarge(f"a batch does not fit into the {len(batches)} bytes asked for")
    return max(fetch_offset, reached or 0)


class _AbortedTransactions:
    """Walks along the batches: a transaction begins at its first offset and ends at its marker."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._upcoming = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
        self._open: set[int] = set()

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        while self._upcoming and self._upcoming[-1].first_offset <= header.last_offset:
            self._open.add(self._upcoming.pop().producer_id)
        if header.is_control:
            # A producer has one transaction at a time, so that its next marker ends it, also if
            # compaction has taken the record out that says which kind of marker it is.
            verify_checksum(batch, header)
            self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open

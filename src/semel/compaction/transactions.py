"""Transactions as a pass meets them, batch by batch, from the front of what it reads.

Law: a marker may go only when a pass that began at the start of the log met none of its
transaction's batches. The entry of an aborted transaction goes by then, never later: readers take
all that the producer writes from the first offset to the marker for aborted.
"""

from collections.abc import Iterable

from semel.log.transactions import AbortedTransaction, in_order
from semel.records.batch import BatchHeader
from semel.records.control import MarkerType, decode_marker
from semel.types import Buffer


class _AbortedHere:
    """One whose first offset was passed and whose marker was not."""

    __slots__ = ("batch_seen", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.batch_seen = False


class PassedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """All that were aborted and have a batch or their marker in what will be read."""
        self._ahead = in_order(list(aborted))
        self._ahead.reverse()
        self._aborted: dict[int, _AbortedHere] = {}
        self._committed: set[int] = set()
        """Producers of which a batch was met whose transaction was committed, as will be seen."""
        self._left: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Tell of a batch of records that comes next."""
        if self._ahead:
            self._pass_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.batch_seen = True
        return True

    def is_discardable(self, header: BatchHeader, batch: Buffer) -> bool:
        """Tell of a control batch that comes next: whether it ends nothing that is still there."""
        if self._ahead:
            self._pass_to(header.last_offset)
        if header.record_count == 0:
            return True
        marker = decode_marker(batch)
        if marker is None:
            return False
        if marker.type == MarkerType.COMMIT:
            if header.producer_id in self._committed:
                self._committed.remove(header.producer_id)
                return False
            return True
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or not aborted.batch_seen:
            return True
        self._left.append(aborted.transaction)
        return False

    def aborted_left(self) -> list[AbortedTransaction]:
        """Those that readers must be told of still, by first offset.

        One of them may have lost its last batch in this pass: that is for the next one to see.
        """
        inside = [aborted.transaction for aborted in self._aborted.values()]
        return in_order([*self._left, *inside, *self._ahead])

    def _pass_to(self, offset: int) -> None:
        ahead = self._ahead
        while ahead and ahead[-1].first_offset <= offset:
            transaction = ahead.pop()
            self._aborted[transaction.producer_id] = _AbortedHere(transaction)

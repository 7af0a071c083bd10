"""The transactions of one partition: which are open, how far readers may go, what they step over.

Two views are kept. What is open follows the log as it is appended. The last stable offset follows
the journal as it becomes durable: it stops before every transaction that is open or whose marker
is not yet durable, so that no one reads what could still turn out otherwise. Of a transaction over
lanes the outcome may be known before its marker is durable.
"""

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from semel.log.snapshot import PartitionTransactionsSnapshot
from semel.types import Offset, ProducerId


class AbortedTransaction(NamedTuple):
    producer_id: ProducerId
    first_offset: Offset


class Aborted(NamedTuple):
    """An aborted transaction in one partition, as it is stored with its marker's segment."""

    producer_id: ProducerId
    first_offset: Offset
    marker_offset: Offset
    floor: Offset
    """The lowest first offset that any later marker can belong to. It never falls from marker to
    marker, so a search that has passed the range it is asked about knows where to stop."""


class PartitionTransactions:
    __slots__ = ("_ended", "_open", "aborted_before", "last_stable_offset")

    def __init__(self) -> None:
        self._open: dict[ProducerId, Offset] = {}
        """First offsets by producer, in the order of the offsets."""
        self._ended: list[tuple[Offset, Offset]] = []
        """A heap of first offset and marker offset, while the marker is not known as durable."""
        self.aborted_before: AbortedIndex | None = None
        """Those that a checkpoint has brought which was taken when checkpoints held all of them:
        the index files of their segments do not have them. None are added any more."""
        self.last_stable_offset = Offset(0)
        """Exclusive. Law: it moves together with the high watermark or when an outcome is known,
        and never back."""

    def first_offset(self, producer_id: ProducerId) -> Offset | None:
        """Where the open transaction of this producer began here, if it has one."""
        return self._open.get(producer_id)

    def first_open_offset(self) -> Offset | None:
        return next(iter(self._open.values()), None)

    def wrote(self, producer_id: ProducerId, base_offset: Offset) -> None:
        """A transactional batch was appended; the first one opens the transaction here."""
        self._open.setdefault(producer_id, base_offset)

    def ended(
        self, producer_id: ProducerId, marker_offset: Offset, *, committed: bool
    ) -> Aborted | None:
        """A marker was appended; gives what it aborted here, which readers must be told of.

        One without data before it ends nothing here.
        """
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        heapq.heappush(self._ended, (first_offset, marker_offset))
        if committed:
            return None
        still_open = self.first_open_offset()
        floor = Offset(marker_offset + 1) if still_open is None else still_open
        return Aborted(producer_id, first_offset, marker_offset, floor)

    def outcome_known(self, marker_offset: Offset) -> None:
        """No crash can give this transaction another end."""
        left = [each for each in self._ended if each[1] != marker_offset]
        if len(left) < len(self._ended):
            heapq.heapify(left)
            self._ended = left

    def advance_high_watermark(self, high_watermark: Offset) -> Offset:
        """The journal is durable up to `high_watermark`: move the last stable offset with it."""
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            heapq.heappop(ended)
        bound = high_watermark
        if ended and ended[0][0] < bound:
            bound = ended[0][0]
        if self._open:
            first_open = next(iter(self._open.values()))
            if first_open < bound:  # noqa: PLR1730 - a call less for each partition.
                bound = first_open
        self.last_stable_offset = bound
        return bound

    def snapshot(self) -> PartitionTransactionsSnapshot:
        aborted = b"" if self.aborted_before is None else self.aborted_before.encode()
        return PartitionTransactionsSnapshot(list(self._open.items()), aborted)

    def restore(self, stored: PartitionTransactionsSnapshot, high_watermark: Offset) -> None:
        self._open = {ProducerId(producer): Offset(first) for producer, first in stored.open}
        self._ended = []
        self.aborted_before = None
        if stored.aborted:
            self.aborted_before = _stored_aborted(stored.aborted)
        self.advance_high_watermark(high_watermark)


def _stored_aborted(stored: bytes | list[tuple[int, int, int, int]]) -> "AbortedIndex":
    aborted = AbortedIndex()
    if isinstance(stored, bytes):
        aborted.restore(stored)
    else:
        for producer_id, first, marker, floor in stored:
            aborted.add(
                Aborted(ProducerId(producer_id), Offset(first), Offset(marker), Offset(floor))
            )
    return aborted


class AbortedIndex:
    """Aborted transactions in the order of their markers, as columns of numbers."""

    __slots__ = ("_first_offsets", "_floors", "_marker_offsets", "_producer_ids")

    def __init__(self, columns: "list[array[int]] | None" = None) -> None:
        if columns is None:
            columns = [array("q") for _ in range(4)]
        self._producer_ids, self._first_offsets, self._marker_offsets, self._floors = columns

    def __len__(self) -> int:
        return len(self._marker_offsets)

    def __iter__(self) -> Iterator[Aborted]:
        for producer_id, first, marker, floor in zip(*self.columns(), strict=True):
            yield Aborted(ProducerId(producer_id), Offset(first), Offset(marker), Offset(floor))

    def add(self, aborted: Aborted) -> None:
        self._producer_ids.append(aborted.producer_id)
        self._first_offsets.append(aborted.first_offset)
        # Last, for who counts them from a thread.
        self._floors.append(aborted.floor)
        self._marker_offsets.append(aborted.marker_offset)

    def extend(self, later: "AbortedIndex") -> None:
        for column, more in zip(self.columns(), later.columns(), strict=True):
            column.extend(more)

    def overlapping(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """Those with a record or marker in [start, end), also if begun before; by first offset."""
        found: list[AbortedTransaction] = []
        self.gather(start, end, found)
        return in_order(found)

    def gather(self, start: int, end: int, found: list[AbortedTransaction]) -> bool:
        """As `overlapping`, into a list. True if none that was aborted later can overlap."""
        for row in range(bisect_left(self._marker_offsets, start), len(self._marker_offsets)):
            if self._first_offsets[row] < end:
                producer_id = ProducerId(self._producer_ids[row])
                found.append(AbortedTransaction(producer_id, Offset(self._first_offsets[row])))
            if self._floors[row] >= end:
                return True
        return False

    def count_before(self, offset: int) -> int:
        """How many have their markers there."""
        return bisect_left(self._marker_offsets, offset)

    def forget_before(self, log_start_offset: Offset) -> None:
        """Those that ended before the log starts have no record left to be stepped over."""
        count = self.count_before(log_start_offset)
        if count:
            for column in self.columns():
                del column[:count]

    def encode(self) -> bytes:
        """In the machine's byte order, as the batch index that a checkpoint holds as well."""
        return b"".join(column.tobytes() for column in self.columns())

    def restore(self, stored: bytes) -> None:
        size = len(stored) // 4
        for number, column in enumerate(self.columns()):
            column.frombytes(stored[number * size : (number + 1) * size])

    def columns(self) -> "tuple[array[int], array[int], array[int], array[int]]":
        return (self._producer_ids, self._first_offsets, self._marker_offsets, self._floors)


def in_order(found: list[AbortedTransaction]) -> list[AbortedTransaction]:
    """By first offset, as clients are told of them."""
    if len(found) > 1:
        found.sort(key=lambda one: (one.first_offset, one.producer_id))
    return found

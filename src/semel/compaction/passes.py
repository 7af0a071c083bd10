"""One pass over the log of a partition, from its start: what stays of each batch.

A record stays if it lies behind what the key map knows, or if no newer record of its key is known
and it has a value. A record without a value, a tombstone, deletes its key; the first pass that
keeps one gives its batch a delete horizon, and a pass at or after that takes it, as it does with a
marker of whose transaction nothing is left. So a reader that comes to the end within
delete.retention.ms misses no deletion (KIP-534).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from semel.compaction.keys import KeyMap, map_key
from semel.compaction.rewriting import (
    HORIZON_MS_MAX,
    emptied,
    packed,
    with_horizon,
    with_records,
)
from semel.compaction.transactions import PassedTransactions
from semel.errors import CorruptMessage
from semel.log.transactions import AbortedTransaction
from semel.records.batch import BatchHeader, read, verify_checksum
from semel.records.scanning import check_end, plain_records, scan_record
from semel.types import Buffer, Offset

_TIME_MIN: Final = -(2**63)


class Counts:
    """What a pass has met, and what of it stays."""

    __slots__ = (
        "batches",
        "batches_kept",
        "batches_unreadable",
        "bytes",
        "bytes_kept",
        "records",
        "records_kept",
    )

    def __init__(self) -> None:
        self.batches = 0
        self.batches_kept = 0
        self.batches_unreadable = 0
        """Whole by their checksum, but no reader can make out their records: kept as they are."""
        self.records = 0
        self.records_kept = 0
        self.bytes = 0
        self.bytes_kept = 0


class CompactionPass:
    def __init__(
        self,
        keys: KeyMap,
        aborted: Iterable[AbortedTransaction],
        *,
        now_ms: int,
        delete_retention_ms: int,
        high_watermark: Offset,
        last_stable_offset: Offset,
    ) -> None:
        """`aborted` are those with a batch or marker in what will be read.

        A batch that ends at one of the two offsets stays though it may be empty: readers go on
        until they have come there, and without it they never would.
        """
        self._newest = keys.newest
        self._end_offset = keys.end_offset
        self._transactions = PassedTransactions(aborted)
        self._now_ms = now_ms
        self._new_horizon_ms = min(now_ms + delete_retention_ms, HORIZON_MS_MAX)
        self._high_watermark = high_watermark
        self._last_stable_offset = last_stable_offset
        self.counts = Counts()
        self.next_horizon_ms: int | None = None
        """The earliest time at which another pass takes what this one has kept for a while."""

    def compact(self, batches: Iterable[Buffer]) -> Iterator[Buffer]:
        """What stays of the batches of the log, which come in order, from its start on.

        They may end anywhere before the last stable offset; what lies behind the key map's end
        loses only what was aborted. Raises CorruptMessage if a checksum is wrong.
        """
        counts = self.counts
        for batch in batches:
            header = read(batch)
            assert header.size == len(batch), "a batch was expected, and nothing behind it"
            verify_checksum(batch, header)
            counts.batches += 1
            counts.records += header.record_count
            counts.bytes += header.size
            kept = self._compacted(header, batch)
            if kept is not None:
                counts.batches_kept += 1
                counts.bytes_kept += len(kept)
                yield kept

    def aborted_left(self) -> list[AbortedTransaction]:
        """Of those given, the ones that readers must be told of, by first offset, if what was read
        so far is replaced. One whose last batch goes in this pass is left for the next to see."""
        return self._transactions.aborted_left()

    def _compacted(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        if header.is_control:
            return self._marker(header, batch)
        if self._transactions.is_aborted(header):
            return self._without_records(header, batch)
        if header.base_offset >= self._end_offset:
            # A tombstone here gets no horizon yet: values that it deletes are still to be read.
            self.counts.records_kept += header.record_count
            return batch
        try:
            return self._filtered(header, batch)
        except CorruptMessage:
            self.counts.batches_unreadable += 1
            self.counts.records_kept += header.record_count
            return batch

    def _marker(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        is_discardable = self._transactions.is_discardable(header, batch)
        if header.record_count == 0:
            return self._without_records(header, batch)
        horizon_ms = header.delete_horizon_ms
        if is_discardable and horizon_ms is not None and horizon_ms <= self._now_ms:
            return self._without_records(header, batch)
        self.counts.records_kept += header.record_count
        if not is_discardable:
            return batch
        if horizon_ms is not None:
            self._will_be_due(horizon_ms)
            return batch
        return self._with_horizon(header, plain_records(header, batch))

    def _without_records(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        next_offset = header.last_offset + 1
        if next_offset not in (self._high_watermark, self._last_stable_offset):
            return None
        return batch if header.record_count == 0 else emptied(header)

    def _filtered(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """What stays of committed records, some of which lie before the key map's end."""
        plain, record_count, max_delta_ms, has_tombstone = self._survivors(header, batch)
        if record_count == 0:
            return self._without_records(header, batch)
        kept = batch
        is_whole = record_count == header.record_count
        if not is_whole:
            header = with_records(header, record_count, header.base_timestamp_ms + max_delta_ms)
        horizon_ms = header.delete_horizon_ms
        if has_tombstone and horizon_ms is None:
            kept = self._with_horizon(header, plain)
        elif not is_whole:
            kept = packed(header, plain)
        if has_tombstone and horizon_ms is not None:
            self._will_be_due(horizon_ms)
        self.counts.records_kept += record_count
        return kept

    def _survivors(self, header: BatchHeader, batch: Buffer) -> tuple[bytes, int, int, bool]:
        """The records that stay, their number, the largest of their timestamp deltas, and whether
        there is one among them that a later pass will take for its age."""
        plain = plain_records(header, batch)
        newest = self._newest
        base_offset = header.base_offset
        delta_max = header.last_offset_delta
        end_offset = self._end_offset
        horizon_ms = header.delete_horizon_ms
        tombstones_stay = horizon_ms is None or self._now_ms < horizon_ms
        has_tombstone = False
        record_count = 0
        max_delta_ms = _TIME_MIN
        pieces: list[bytes] = []
        begin = position = 0  # Between these all records stay.
        delta = -1
        for _ in range(header.record_count):
            end, delta_ms, delta, key_from, key_until, value_size = scan_record(
                plain, position, delta + 1, delta_max
            )
            offset = base_offset + delta
            if offset >= end_offset:
                stays = True
            elif key_until < key_from or (value_size < 0 and not tombstones_stay):
                stays = False
            else:
                stays = offset >= newest.get(map_key(plain, key_from, key_until), -1)
                if stays and value_size < 0:
                    has_tombstone = True
            if stays:
                record_count += 1
                max_delta_ms = max(max_delta_ms, delta_ms)
            else:
                if begin < position:
                    pieces.append(plain[begin:position])
                begin = end
            position = end
        check_end(plain, position)
        if record_count < header.record_count:
            pieces.append(plain[begin:position])
            plain = b"".join(pieces)
        return plain, record_count, max_delta_ms, has_tombstone

    def _with_horizon(self, header: BatchHeader, plain: bytes) -> bytes:
        due = packed(*with_horizon(header, plain, self._new_horizon_ms))
        self._will_be_due(self._new_horizon_ms)
        return due

    def _will_be_due(self, horizon_ms: int) -> None:
        if self.next_horizon_ms is None or horizon_ms < self.next_horizon_ms:
            self.next_horizon_ms = horizon_ms

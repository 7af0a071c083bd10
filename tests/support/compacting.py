"""A partition that is written to and compacted, beside a plain account of what must be in it.

The account keeps every record ever written and says which of them a pass may take. It never looks
at a batch; what is in the batches is read by a reader of its own, as a consumer would.
"""

from typing import NamedTuple

from semel.compaction.keys import KeyMap
from semel.compaction.passes import CompactionPass
from semel.log.transactions import AbortedTransaction
from semel.records.batch import BatchHeader, read, with_log_append_time
from semel.records.control import Marker, MarkerType, decode_marker, encode_marker
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import NO_PRODUCER_ID, Offset, ProducerId

RETENTION_MS = 100
EPOCH = 3
TERM = 7


class Written(NamedTuple):
    """A batch or marker as it was appended; never changed."""

    header: BatchHeader
    records: list[Record]
    transaction: int | None


class Ended(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int
    committed: bool


class Partition:
    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.batches: list[bytes] = []
        self.aborted: list[Ended] = []
        """As the log knows them; entries go."""
        self.log_start_offset = 0
        self.first_dirty_offset = 0
        self.end_offset = 0
        # The account
        self.written: list[Written] = []
        self.ended: dict[int, Ended] = {}
        """By the number of the transaction."""
        self._open: dict[int, tuple[int, int]] = {}
        """Number and first offset of each producer's transaction."""
        self._transaction_count = 0
        self._sequences: dict[int, int] = {}
        self.gone: set[int] = set()
        """Offsets of the records that passes have taken."""
        self._first_kept_ms: dict[int, int] = {}
        """When the first pass that knew of it kept a tombstone, or a marker that ended nothing any
        more, by its offset."""

    # Writing

    def write(
        self,
        records: list[Record],
        producer_id: int = NO_PRODUCER_ID,
        *,
        in_transaction: bool = False,
        compression: int = 0,
        log_append_time: bool = False,
    ) -> None:
        transaction = None
        if in_transaction:
            if producer_id not in self._open:
                self._open[producer_id] = self._transaction_count, self.end_offset
                self._transaction_count += 1
            transaction, _ = self._open[producer_id]
        sequence = self._sequences.get(producer_id, 0) if producer_id >= 0 else -1
        self._sequences[producer_id] = sequence + len(records)
        batch = encode_batch(
            records,
            base_offset=self.end_offset,
            leader_epoch=TERM,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=EPOCH if producer_id >= 0 else -1,
            base_sequence=sequence,
            is_transactional=in_transaction,
        )
        if log_append_time:
            batch = with_log_append_time(batch, self.now_ms)
        self._append(batch, transaction)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Its transaction; without one the marker ends nothing here."""
        transaction, first_offset = self._open.pop(producer_id, (None, -1))
        marker_type = MarkerType.COMMIT if commit else MarkerType.ABORT
        marker = Marker(marker_type, self.end_offset, producer_id, EPOCH, 0, self.now_ms)
        if transaction is not None:
            ended = Ended(producer_id, first_offset, self.end_offset, commit)
            self.ended[transaction] = ended
            if not commit:
                self.aborted.append(ended)
        self._append(encode_marker(marker, leader_epoch=TERM), transaction)

    def _append(self, batch: bytes, transaction: int | None) -> None:
        header = read(batch)
        self.batches.append(batch)
        self.written.append(Written(header, decode_batch(batch), transaction))
        self.end_offset = header.last_offset + 1

    @property
    def last_stable_offset(self) -> int:
        return min([first for _, first in self._open.values()], default=self.end_offset)

    def delete_before(self, offset: int) -> None:
        """As retention does, or DeleteRecords; not beyond the last stable offset."""
        self.log_start_offset = max(self.log_start_offset, min(offset, self.last_stable_offset))
        self.first_dirty_offset = max(self.first_dirty_offset, self.log_start_offset)
        start = self.log_start_offset
        for header in map(read, self.batches):
            if header.last_offset < start:
                self.gone.update(range(header.base_offset, header.last_offset + 1))
        self.batches = [each for each in self.batches if read(each).last_offset >= start]
        self.aborted = [each for each in self.aborted if each.marker_offset >= start]

    # A pass

    def compact(
        self,
        buffer_size: int = 10**6,
        batches_untouched: int = 0,
        batches_replaced: int | None = None,
    ) -> None:
        """Over all batches before the last stable offset but the last few.

        With `batches_replaced` it is cut off: only so many, from the front, are replaced.
        """
        stable = [each for each in self.batches if read(each).base_offset < self.last_stable_offset]
        cleanable = stable[: max(len(stable) - batches_untouched, 0)]
        range_end = read(cleanable[-1]).last_offset + 1 if cleanable else 0
        keys = KeyMap(
            Offset(self.first_dirty_offset),
            self.overlapping(self.first_dirty_offset, range_end),
            buffer_size=buffer_size,
        )
        for batch in cleanable:
            if read(batch).last_offset >= self.first_dirty_offset and not keys.add(batch):
                break
        assert not keys.is_full or keys.end_offset > self.first_dirty_offset
        if batches_replaced is None or batches_replaced >= len(cleanable):
            self.first_dirty_offset = keys.end_offset
        else:
            cleanable = cleanable[:batches_replaced]
            range_end = read(cleanable[-1]).last_offset + 1 if cleanable else 0
        self._replace(cleanable, keys, range_end)

    def _replace(self, cleanable: list[bytes], keys: KeyMap, range_end: int) -> None:
        given = self.overlapping(0, range_end)
        compaction_pass = CompactionPass(
            keys,
            given,
            now_ms=self.now_ms,
            delete_retention_ms=RETENTION_MS,
            high_watermark=Offset(self.end_offset),
            last_stable_offset=Offset(self.last_stable_offset),
        )
        before = self.batches
        kept = [bytes(each) for each in compaction_pass.compact(cleanable)]
        self.batches = kept + before[len(cleanable) :]
        taken = set(given) - set(compaction_pass.aborted_left())
        self.aborted = [each for each in self.aborted if (each[0], each[1]) not in taken]
        self._account(keys.end_offset, range_end, before)

    def overlapping(self, start: int, end: int) -> list[AbortedTransaction]:
        return [
            AbortedTransaction(ProducerId(each.producer_id), Offset(each.first_offset))
            for each in self.aborted
            if each.first_offset < end and each.marker_offset >= start
        ]

    # The account

    def is_aborted(self, written: Written) -> bool:
        ended = None if written.transaction is None else self.ended.get(written.transaction)
        return ended is not None and not ended.committed

    def _account(self, known_end: int, range_end: int, before: list[bytes]) -> None:
        """What the pass must have taken, by the rules, from what is left of what was written."""
        transactions_left = self._transactions_in(before)
        newest = self._newest_committed(known_end)
        for written in self.written:
            for record in written.records:
                if record.offset >= range_end or record.offset in self.gone:
                    continue
                if written.header.is_control:
                    goes = written.transaction not in transactions_left and self._is_due(record)
                elif self.is_aborted(written):
                    goes = True
                elif record.offset >= known_end:
                    goes = False
                elif record.key is None or newest[record.key] != record:
                    goes = True
                else:
                    goes = record.value is None and self._is_due(record)
                if goes:
                    self.gone.add(record.offset)

    def _newest_committed(self, end: int) -> dict[bytes, Record]:
        """Of all that was ever written before `end`."""
        return {
            record.key: record
            for written in self.written
            if not written.header.is_control and not self.is_aborted(written)
            for record in written.records
            if record.offset < end and record.key is not None
        }

    def _is_due(self, record: Record) -> bool:
        first_kept_ms = self._first_kept_ms.get(record.offset)
        if first_kept_ms is None:
            self._first_kept_ms[record.offset] = self.now_ms
            return False
        return first_kept_ms + RETENTION_MS <= self.now_ms

    def _transactions_in(self, batches: list[bytes]) -> set[int | None]:
        """Of which there is a batch of records, be it empty."""
        by_offset = {written.header.base_offset: written for written in self.written}
        return {
            by_offset[header.base_offset].transaction
            for header in map(read, batches)
            if not header.is_control
        } - {None}

    # What must be true, whenever

    def check(self) -> None:
        self._check_batches()
        self._check_ends()
        self._check_entries()
        for base_offset in {read(each).base_offset for each in self.batches} | {0}:
            start = max(base_offset, self.log_start_offset)
            assert self._read_committed(start) == self.committed(start)

    def _check_batches(self) -> None:
        """Every batch is one that was written, but for the records that went."""
        by_offset = {written.header.base_offset: written for written in self.written}
        last_offset = -1
        found: set[int] = set()
        for batch in self.batches:
            header = read(batch)
            written = by_offset[header.base_offset]
            assert last_offset < header.base_offset
            last_offset = header.last_offset
            records = decode_batch(batch)
            assert set(records) <= set(written.records)
            assert [each.offset for each in records] == sorted(each.offset for each in records)
            assert _unchanging(header) == _unchanging(written.header)
            if records:
                assert header.compression == written.header.compression
                assert header.max_timestamp_ms == max(each.timestamp_ms for each in records)
            found |= {each.offset for each in records}
        all_offsets = {each.offset for written in self.written for each in written.records}
        assert found == all_offsets - self.gone

    def _check_ends(self) -> None:
        """A reader comes to the end, whichever it is told."""
        for end in (self.end_offset, self.last_stable_offset):
            if end > self.log_start_offset:
                assert any(read(each).last_offset + 1 == end for each in self.batches)

    def _check_entries(self) -> None:
        """Without its marker, a reader would not know where an aborted transaction ends."""
        offsets = {read(each).base_offset for each in self.batches if read(each).record_count}
        assert {each.marker_offset for each in self.aborted} <= offsets

    def newest_values(self) -> list[Record]:
        """Of all keys that were not deleted, in the order of the log."""
        newest = self._newest_committed(self.end_offset).values()
        return sorted(
            (each for each in newest if each.value is not None and each.offset not in self.gone),
            key=lambda record: record.offset,
        )

    def committed(self, start: int) -> list[Record]:
        return [
            record
            for written in self.written
            for record in written.records
            if start <= record.offset < self.last_stable_offset
            and record.offset not in self.gone
            and not written.header.is_control
            and not self.is_aborted(written)
        ]

    def _read_committed(self, start: int) -> list[Record]:
        """As a consumer does that is told what was aborted from `start` on."""
        ahead = sorted(self.overlapping(start, self.end_offset), key=lambda each: each[1])
        aborting: set[int] = set()
        found: list[Record] = []
        for batch in self.batches:
            header = read(batch)
            if header.last_offset < start or header.base_offset >= self.last_stable_offset:
                continue
            while ahead and ahead[0].first_offset <= header.last_offset:
                aborting.add(ahead.pop(0).producer_id)
            if header.is_control:
                marker = decode_marker(batch)
                if marker is not None and marker.type is MarkerType.ABORT:
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                found += [each for each in decode_batch(batch) if each.offset >= start]
        return found


def _unchanging(header: BatchHeader) -> tuple[int, ...]:
    """What a batch keeps, however few of its records it does."""
    return (
        header.base_offset,
        header.last_offset_delta,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.attributes & 0x38,
    )

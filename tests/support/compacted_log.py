"""What compaction leaves of a batch, and a log that is full of it."""

from collections.abc import Collection
from typing import NamedTuple

from semel.log.transactions import Aborted
from semel.records.batch import COMPRESSION_MASK, BatchHeader, read, sealed
from semel.records.compression import Compression, compress
from semel.records.control import Marker, MarkerType, encode_marker
from semel.records.records import Record, decode_batch, encode_batch
from semel.records.varint import append_varint
from semel.types import Offset, ProducerId

DELETE_HORIZON = 0x40
"""The flag of a batch whose base timestamp says when its tombstones may go (KIP-534)."""


def emptied(batch: bytes) -> bytes:
    """Its header alone: offsets, producer and flags stay, but there is nothing to be compressed."""
    header = read(batch)
    attributes = header.attributes & ~COMPRESSION_MASK
    return sealed(header.replaced(attributes=attributes, record_count=0), b"")


def thinned(batch: bytes, kept: Collection[int], *, horizon_ms: int | None = None) -> bytes:
    """With these offsets alone of its records; base and last offset stay."""
    header = read(batch)
    base_ms = header.base_timestamp_ms if horizon_ms is None else horizon_ms
    records = [record for record in decode_batch(batch) if record.offset in kept]
    plain = b"".join(
        _encoded(record, record.offset - header.base_offset, record.timestamp_ms - base_ms)
        for record in records
    )
    rewritten: BatchHeader = header.replaced(
        attributes=header.attributes | (DELETE_HORIZON if horizon_ms is not None else 0),
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        record_count=len(records),
    )
    return sealed(rewritten, compress(header.compression, plain))


def _encoded(record: Record, offset_delta: int, timestamp_delta_ms: int) -> bytes:
    body = bytearray(1)
    append_varint(body, timestamp_delta_ms)
    append_varint(body, offset_delta)
    for part in (record.key, record.value):
        append_varint(body, -1 if part is None else len(part))
        body += part or b""
    append_varint(body, 0)
    out = bytearray()
    append_varint(out, len(body))
    return bytes(out + body)


class CompactedLog(NamedTuple):
    """A partition as compaction leaves it, and what its readers are to see of it."""

    batches: list[bytes]
    aborted: list[Aborted]
    records: list[Record]
    aborted_offsets: frozenset[int]
    start: int
    """Within a batch."""
    end: int

    def visible(self, *, is_committed_only: bool) -> list[Record]:
        hidden = self.aborted_offsets if is_committed_only else ()
        return [each for each in self.records if each.offset not in hidden]


TIME_MS = 1_000


def batch_of(
    first: int,
    last: int,
    *,
    producer_id: int = -1,
    compression: int = Compression.NONE,
    is_tombstone: bool = False,
) -> bytes:
    """A record for each offset, with the offset as its key and the age in its time."""
    return encode_batch(
        [
            Record(b"%d" % offset, None if is_tombstone else b"v%d" % offset, TIME_MS + offset)
            for offset in range(first, last + 1)
        ],
        base_offset=first,
        leader_epoch=0,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def _marker(offset: int, producer_id: int, kind: MarkerType) -> bytes:
    return encode_marker(Marker(kind, offset, producer_id, 0, 0, TIME_MS + offset), leader_epoch=0)


def compacted_log(*, has_empty_markers: bool = True) -> CompactedLog:
    """Offsets 5 to 79, with gaps at 10-19, 28-29 and 40-49."""
    abort, commit = MarkerType.ABORT, MarkerType.COMMIT
    perhaps_emptied = emptied if has_empty_markers else bytes
    batches = [
        thinned(batch_of(5, 9), (5, 7, 9)),
        emptied(batch_of(20, 24)),
        thinned(batch_of(25, 27, is_tombstone=True), (25, 27), horizon_ms=2**41),
        thinned(batch_of(30, 34, producer_id=7), (31, 33)),
        batch_of(35, 36, producer_id=8),
        _marker(37, 7, abort),
        perhaps_emptied(_marker(38, 8, commit)),
        # Nothing is left of what this one has ended, so that nobody calls it aborted.
        perhaps_emptied(_marker(39, 6, abort)),
        batch_of(50, 52, producer_id=7),
        perhaps_emptied(_marker(53, 7, commit)),
        thinned(batch_of(54, 55, producer_id=9), (55,)),
        _marker(56, 9, abort),
        batch_of(57, 58, producer_id=9),
        _marker(59, 9, commit),
        thinned(batch_of(60, 69, compression=Compression.GZIP), (60, 65, 68)),
        # What ends the log stays, though nothing is left of it.
        emptied(batch_of(70, 79, compression=Compression.GZIP)),
    ]
    start = 6
    records = [
        record
        for batch in batches
        if not read(batch).is_control and read(batch).record_count
        for record in decode_batch(batch)
        if record.offset >= start
    ]
    aborted = [
        Aborted(ProducerId(7), Offset(30), Offset(37), Offset(35)),
        Aborted(ProducerId(9), Offset(54), Offset(56), Offset(57)),
    ]
    return CompactedLog(batches, aborted, records, frozenset({31, 33, 55}), start, 80)

"""A batch that loses records, or is given a delete horizon: what else of it stays as it is.

Base offset, last offset delta, producer, sequence, leader epoch, flags and codec stay. So offsets
never change, and a producer that comes back finds the sequences that it has used.
"""

from typing import Final

from semel.errors import CorruptMessage
from semel.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_MS,
    BatchHeader,
    sealed,
)
from semel.records.compression import compress
from semel.records.scanning import scan_record
from semel.records.varint import append_varint, read_varint

HORIZON_MS_MAX: Final = 2**62
"""What is to be kept for longer than there are milliseconds has this horizon."""


def emptied(header: BatchHeader) -> bytes:
    """The header alone. Without records there is nothing to unpack and nothing that is due."""
    attributes = header.attributes & ~COMPRESSION_MASK & ~DELETE_HORIZON
    return sealed(
        header.replaced(attributes=attributes, base_timestamp_ms=NO_TIMESTAMP_MS, record_count=0),
        b"",
    )


def with_records(header: BatchHeader, record_count: int, max_timestamp_ms: int) -> BatchHeader:
    """The header with so many of its records, the latest of which is of this time.

    Their timestamps count from its base timestamp still, though that may be none of theirs.
    """
    if not header.is_log_append_time:
        header = header.replaced(max_timestamp_ms=max_timestamp_ms)
    return header.replaced(record_count=record_count)


def with_horizon(header: BatchHeader, plain: bytes, horizon_ms: int) -> tuple[BatchHeader, bytes]:
    """Header and records of the same batch with a delete horizon, where the base timestamp was.

    Raises CorruptMessage if a record's time is too far from it.
    """
    due = header.replaced(
        attributes=header.attributes | DELETE_HORIZON, base_timestamp_ms=horizon_ms
    )
    if header.attributes & LOG_APPEND_TIME:
        return due, plain  # Nobody asks for their deltas.
    shift_ms = header.base_timestamp_ms - horizon_ms
    out = bytearray()
    position = 0
    while position < len(plain):
        _, body_from = read_varint(plain, position)
        end, delta_ms, _, _, _, _ = scan_record(plain, position, 0, header.last_offset_delta)
        delta_ms += shift_ms
        if not -(2**63) <= delta_ms < 2**63:
            raise CorruptMessage(f"a record's time is {delta_ms} ms behind its delete horizon")
        _, rest_from = read_varint(plain, body_from + 1)
        head = bytearray(plain[body_from : body_from + 1])
        append_varint(head, delta_ms)
        append_varint(out, len(head) + end - rest_from)
        out += head
        out += plain[rest_from:end]
        position = end
    return due, bytes(out)


def packed(header: BatchHeader, plain: bytes) -> bytes:
    return sealed(header, compress(header.compression, plain))

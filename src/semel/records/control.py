"""Control batches: the commit and abort markers that end a transaction in a partition.

A marker is a batch of one record. Its key is version and type, its value version and
coordinator epoch; it takes one offset, and consumers step over it. Once all records that it ended
are gone, compaction may take its own record out too and leave the batch empty.
"""

import enum
import struct
from typing import Final, NamedTuple

from semel.errors import CorruptMessage
from semel.records.batch import read
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import NO_SEQUENCE, Buffer

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class MarkerType(enum.IntEnum):
    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    type: MarkerType
    offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    timestamp_ms: int


def encode_marker(marker: Marker, *, leader_epoch: int) -> bytes:
    record = Record(
        _KEY.pack(_VERSION, marker.type),
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
        marker.timestamp_ms,
    )
    return encode_batch(
        [record],
        base_offset=marker.offset,
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        base_sequence=NO_SEQUENCE,
        is_transactional=True,
        is_control=True,
    )


def decode_marker(batch: Buffer) -> Marker | None:
    """The marker in a batch; None for a control batch that ends none, or does not say how.

    It may be empty, or of another type. Newer versions may have more bytes behind the fields
    known here, and newer brokers other types: all are to be stepped over.
    """
    header = read(batch)
    if not header.is_control or header.record_count > 1:
        raise CorruptMessage(
            f"batch at offset {header.base_offset} is not a control batch of one record"
        )
    records = decode_batch(batch)
    if not records:
        return None
    (record,) = records
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptMessage(f"control batch at offset {record.offset}: key is cut")
    _, marker_type = _KEY.unpack_from(record.key)
    if marker_type not in (MarkerType.ABORT, MarkerType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptMessage(f"control batch at offset {record.offset}: value is cut")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return Marker(
        MarkerType(marker_type),
        record.offset,
        header.producer_id,
        header.producer_epoch,
        coordinator_epoch,
        record.timestamp_ms,
    )

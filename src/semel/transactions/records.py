"""What the coordinator writes to `__transaction_state`, in Kafka's own key and value format.

    key version 0     the transactional id
    value version 0   without tagged fields: read, never written
    value version 1   read and written

A record without a value forgets its transactional id. Fields that Kafka does not have are tagged,
with numbers far from those it may use; its readers step over tags they do not know. A value that
lacks them was written by someone else, and its epoch counts as spent.
"""

import struct
from typing import Final

from semel.errors import CorruptJournal
from semel.records.fields import FieldReader, string_field
from semel.transactions.key import TransactionKey
from semel.transactions.participants import NOBODY, participants
from semel.transactions.transaction import NO_TERM, JoinedLane, Status, Transaction, dead
from semel.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Buffer,
    ProducerEpoch,
    ProducerId,
    Term,
    TopicPartition,
    TransactionalId,
)
from semel.wire.primitives import uvarint

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 1

PREVIOUS_PRODUCER_ID_TAG: Final = 0
NEXT_PRODUCER_ID_TAG: Final = 1
CLIENT_VERSION_TAG: Final = 2
EPOCH_TERM_TAG: Final = 10_000
LAST_PRODUCER_EPOCH_TAG: Final = 10_001
DOOMED_TAG: Final = 10_002
LANES_TAG: Final = 10_003
VOTED_DOWN_TAG: Final = 10_004

_NO_TAGS: Final = b"\x00"
_NULL_ARRAY: Final = b"\x00"
_HEAD: Final = struct.Struct(">qhib")
"""Producer id, epoch, timeout, status: the same in both versions."""
_VALUE_HEAD: Final = struct.Struct(">hqhib")
"""The version, then as above."""
_TIMES: Final = struct.Struct(">qq")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_TRANSACTION_KEY: Final = struct.Struct(">iiqhq")
_LANE: Final = struct.Struct(">ii")
_KEY: Final = _INT16.pack(KEY_VERSION)


def _tag(tag: int, size: int) -> bytes:
    """What stands before the content of a tagged field."""
    return uvarint(tag) + uvarint(size)


_PREVIOUS_PRODUCER_ID: Final = _tag(PREVIOUS_PRODUCER_ID_TAG, _INT64.size)
_NEXT_PRODUCER_ID: Final = _tag(NEXT_PRODUCER_ID_TAG, _INT64.size)
_CLIENT_VERSION: Final = _tag(CLIENT_VERSION_TAG, _INT16.size)
_EPOCH_TERM: Final = _tag(EPOCH_TERM_TAG, _INT32.size)
_LAST_PRODUCER_EPOCH: Final = _tag(LAST_PRODUCER_EPOCH_TAG, _INT16.size)
_DOOMED: Final = _tag(DOOMED_TAG, 1) + b"\x01"
_VOTED_DOWN: Final = _tag(VOTED_DOWN_TAG, 1) + b"\x01"


def encode(transaction: Transaction) -> tuple[bytes, bytes | None]:
    """The key and the value of the record that stores this."""
    key = _KEY + string_field(transaction.transactional_id)
    if transaction.status is Status.DEAD:
        return key, None
    is_empty = transaction.status is Status.EMPTY
    parts = [
        _VALUE_HEAD.pack(
            VALUE_VERSION,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.timeout_ms,
            transaction.status,
        ),
        _NULL_ARRAY if is_empty else participants(transaction.partitions).packed(),
        _TIMES.pack(transaction.last_update_ms, transaction.started_at_ms),
        _NO_TAGS,
    ]
    _add_tags(parts, transaction)
    return key, b"".join(parts)


def _add_tags(parts: list[bytes], transaction: Transaction) -> None:
    """How many there are stands last in `parts` until now."""
    before = len(parts)
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        parts.append(_PREVIOUS_PRODUCER_ID + _INT64.pack(transaction.previous_producer_id))
    if transaction.next_producer_id != NO_PRODUCER_ID:
        parts.append(_NEXT_PRODUCER_ID + _INT64.pack(transaction.next_producer_id))
    if transaction.client_version != 0:
        parts.append(_CLIENT_VERSION + _INT16.pack(transaction.client_version))
    if transaction.epoch_term != NO_TERM:
        parts.append(_EPOCH_TERM + _INT32.pack(transaction.epoch_term))
    if transaction.last_producer_epoch != NO_PRODUCER_EPOCH:
        parts.append(_LAST_PRODUCER_EPOCH + _INT16.pack(transaction.last_producer_epoch))
    if transaction.is_doomed:
        parts.append(_DOOMED)
    if transaction.key is not None:
        parts.append(_lanes_field(transaction.key, transaction.lanes))
    if transaction.is_voted_down:
        parts.append(_VOTED_DOWN)
    parts[before - 1] = uvarint(len(parts) - before)


def _lanes_field(key: TransactionKey, lanes: tuple[JoinedLane, ...]) -> bytes:
    content = _TRANSACTION_KEY.pack(
        key.lane, key.term, key.producer_id, key.producer_epoch, key.number
    ) + b"".join(_LANE.pack(*each) for each in lanes)
    return _tag(LANES_TAG, len(content)) + content


def _lanes_of(content: bytes | None) -> tuple[TransactionKey | None, tuple[JoinedLane, ...]]:
    if content is None:
        return None, ()
    lanes_size = len(content) - _TRANSACTION_KEY.size
    if lanes_size < 0 or lanes_size % _LANE.size:
        raise CorruptJournal(f"tag {LANES_TAG} of a transaction value has {len(content)} bytes")
    lane, term, producer_id, epoch, number = _TRANSACTION_KEY.unpack_from(content)
    key = TransactionKey(lane, Term(term), ProducerId(producer_id), ProducerEpoch(epoch), number)
    pairs = _LANE.iter_unpack(content[_TRANSACTION_KEY.size :])
    return key, tuple(JoinedLane(lane, Term(term)) for lane, term in pairs)


def decode(key: Buffer, value: Buffer | None) -> Transaction | None:
    """What a stored record says; None for a kind of key that is not known."""
    reader = FieldReader(key, "key of __transaction_state")
    if reader.int16() != KEY_VERSION:
        return None
    transactional_id = TransactionalId(reader.string())
    if value is None:
        return dead(transactional_id)
    return _read_value(transactional_id, FieldReader(value, "value of __transaction_state"))


def _read_value(transactional_id: TransactionalId, reader: FieldReader) -> Transaction:
    version = reader.int16()
    if not 0 <= version <= VALUE_VERSION:
        raise CorruptJournal(f"transaction value of version {version}; 0 and 1 are known")
    reader.flexible = version >= VALUE_VERSION
    producer_id, producer_epoch, timeout_ms, status = reader.integers(_HEAD)
    partitions = set()
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            partitions.add(TopicPartition(topic, reader.int32()))
        reader.skip_tags()
    last_update_ms, started_at_ms = reader.integers(_TIMES)
    tags = reader.tags()
    transaction_key, lanes = _lanes_of(tags.get(LANES_TAG))
    return Transaction(
        transactional_id=transactional_id,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(producer_epoch),
        timeout_ms=timeout_ms,
        status=_status(status),
        last_producer_epoch=ProducerEpoch(
            _tagged(tags, LAST_PRODUCER_EPOCH_TAG, _INT16, NO_PRODUCER_EPOCH)
        ),
        previous_producer_id=ProducerId(
            _tagged(tags, PREVIOUS_PRODUCER_ID_TAG, _INT64, NO_PRODUCER_ID)
        ),
        next_producer_id=ProducerId(_tagged(tags, NEXT_PRODUCER_ID_TAG, _INT64, NO_PRODUCER_ID)),
        partitions=NOBODY.joined(partitions),
        started_at_ms=started_at_ms,
        last_update_ms=last_update_ms,
        client_version=_tagged(tags, CLIENT_VERSION_TAG, _INT16, 0),
        epoch_term=Term(_tagged(tags, EPOCH_TERM_TAG, _INT32, NO_TERM)),
        is_doomed=DOOMED_TAG in tags,
        lanes=lanes,
        key=transaction_key,
        is_voted_down=VOTED_DOWN_TAG in tags,
    )


def _status(number: int) -> Status:
    # A forgotten id has no value; Kafka does not store its PrepareEpochFence (7) either.
    if not Status.EMPTY <= number < Status.DEAD:
        raise CorruptJournal(f"transaction value with status {number}; 0 to 5 are known")
    return Status(number)


def _tagged(tags: dict[int, bytes], tag: int, layout: struct.Struct, default: int) -> int:
    content = tags.get(tag)
    if content is None:
        return default
    if len(content) != layout.size:
        raise CorruptJournal(f"tag {tag} of a transaction value has {len(content)} bytes")
    (number,) = layout.unpack(content)
    return int(number)

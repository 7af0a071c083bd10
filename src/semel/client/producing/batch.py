"""Records on their way to one partition: encoded as they come, sealed when they are sent.

A retry sends the same bytes, by which brokers recognise it; only a new epoch makes them anew.
"""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from semel.client.producing.failures import BatchFailure
from semel.errors import RequestError
from semel.records.batch import HEADER_SIZE, MAGIC, TRANSACTIONAL, BatchHeader, seal
from semel.records.compression import Compression, compress
from semel.records.records import RecordHeader
from semel.records.varint import append_varint
from semel.types import (
    NO_PRODUCER,
    NO_SEQUENCE,
    SEQUENCE_COUNT,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from semel.types import Sequence as SequenceNumber

RECORD_OVERHEAD_SIZE = 24
"""What a record without headers takes beside its key and value, at most and for usual sizes."""
_HEADER_OVERHEAD_SIZE = 10


def _varint(number: int) -> bytes:
    out = bytearray()
    append_varint(out, number)
    return bytes(out)


_VARINT_COUNT = 4096
_VARINTS = tuple(map(_varint, range(_VARINT_COUNT)))
_ZERO = _varint(0)
_NULL = _varint(-1)


class ProducerBatch:
    """Filled by one partition's queue; `error` or `base_offset` is there when it is done."""

    __slots__ = (
        "attempts",
        "base_offset",
        "base_timestamp_ms",
        "content",
        "deadline_ms",
        "error",
        "failure",
        "is_done",
        "log_append_time_ms",
        "max_timestamp_ms",
        "may_be_stored",
        "number",
        "partition",
        "plain",
        "position",
        "producer",
        "record_count",
        "refusal",
        "ripe_at_ms",
        "size",
        "waiters",
        "was_next",
    )

    def __init__(self, partition: TopicPartition, timestamp_ms: int) -> None:
        self.partition = partition
        self.plain = bytearray()
        self.size = HEADER_SIZE
        """No less than what it takes in memory."""
        self.record_count = 0
        self.base_timestamp_ms = timestamp_ms
        self.max_timestamp_ms = timestamp_ms
        self.ripe_at_ms = inf
        self.deadline_ms = inf
        self.position: int | None = None
        """Its first sequence, without the wrap; given when it is drained."""
        self.number = -1
        """Counts the batches of its partition that were given a sequence."""
        self.producer = NO_PRODUCER
        self.was_next = False
        """Whether everything before it was acknowledged when it was last sent."""
        self.may_be_stored = False
        """Whether an attempt had no answer, or one that leaves it open."""
        self.refusal: RequestError | None = None
        """Of the last attempt."""
        self.attempts = 0
        self.content: bytes | None = None
        self.is_done = False
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: Exception | None = None
        self.failure: BatchFailure | None = None
        """There with an error that a caller has to hear of; a transaction tells of its own."""
        self.waiters: deque[Callable[[], object]] = deque()
        """To be called, each once, when it is done."""

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
        timestamp_ms: int,
    ) -> int:
        """Where it stands in the batch."""
        number = self.record_count
        delta_ms = timestamp_ms - self.base_timestamp_ms
        key_size = 0 if key is None else len(key)
        value_size = 0 if value is None else len(value)
        if (
            0 <= delta_ms < _VARINT_COUNT
            and number < _VARINT_COUNT
            and key_size < _VARINT_COUNT
            and value_size < _VARINT_COUNT
            and not headers
        ):
            body = b"".join(
                (
                    _ZERO,
                    _VARINTS[delta_ms],
                    _VARINTS[number],
                    _NULL if key is None else _VARINTS[key_size] + key,
                    _NULL if value is None else _VARINTS[value_size] + value,
                    _ZERO,
                )
            )
        else:
            body = _record(number, delta_ms, key, value, headers)
        size = len(body)
        plain = self.plain
        plain += _VARINTS[size] if size < _VARINT_COUNT else _varint(size)
        plain += body
        self.record_count = number + 1
        if timestamp_ms > self.max_timestamp_ms:  # noqa: PLR1730 - a call less for each record.
            self.max_timestamp_ms = timestamp_ms
        return number

    @property
    def end_position(self) -> int:
        assert self.position is not None, "a batch has a sequence when it is drained"
        return self.position + self.record_count

    def sealed(self, *, is_transactional: bool, compression: Compression) -> bytes:
        """Its bytes, the same at every attempt under one producer."""
        if self.content is None:
            producer = self.producer
            header = BatchHeader(
                base_offset=0,
                length=0,
                leader_epoch=-1,
                magic=MAGIC,
                checksum=0,
                attributes=compression | (TRANSACTIONAL if is_transactional else 0),
                last_offset_delta=self.record_count - 1,
                base_timestamp_ms=self.base_timestamp_ms,
                max_timestamp_ms=self.max_timestamp_ms,
                producer_id=ProducerId(producer.producer_id),
                producer_epoch=ProducerEpoch(producer.producer_epoch),
                base_sequence=NO_SEQUENCE
                if producer == NO_PRODUCER or self.position is None
                else SequenceNumber(self.position % SEQUENCE_COUNT),
                record_count=self.record_count,
            )
            content = bytearray(header.pack())
            content += compress(compression, self.plain)
            seal(content)
            self.content = bytes(content)
        return self.content

    def forget_sequence(self) -> None:
        """It is as if it had never been drained."""
        self.position = None
        self.content = None
        self.was_next = False
        self.may_be_stored = False


def headers_size(headers: Sequence[RecordHeader]) -> int:
    """No less than the headers of a record take in a batch without compression."""
    return sum(
        _HEADER_OVERHEAD_SIZE + 4 * len(name) + len(content or b"") for name, content in headers
    )


def _record(
    number: int,
    delta_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[RecordHeader],
) -> bytes:
    out = bytearray(_ZERO)
    append_varint(out, delta_ms)
    append_varint(out, number)
    _append_bytes(out, key)
    _append_bytes(out, value)
    append_varint(out, len(headers))
    for name, content in headers:
        _append_bytes(out, name.encode())
        _append_bytes(out, content)
    return bytes(out)


def _append_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        out += _NULL
    else:
        append_varint(out, len(content))
        out += content

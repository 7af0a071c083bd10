"""What one fetch gave of one partition: handed out piece by piece, and opened as late as that.

A batch is opened in one go. Whatever is not as most batches are is left to the reader that checks
each step and says what is wrong; so `_open_quickly` need not, and is several times faster.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from semel.client.consuming.committed import visible_batches
from semel.client.consuming.record import Record, TimestampType
from semel.errors import RecordListTooLarge
from semel.records.batch import HEADER_SIZE, BatchHeader, split, verify_checksum
from semel.records.compression import decompress
from semel.records.records import RecordHeader, decode_batch, read_headers
from semel.records.varint import read_varint
from semel.types import Buffer, TopicPartition
from semel.wire.messages.fetch import AbortedTransaction

if TYPE_CHECKING:
    import pyarrow as pa

_NO_BYTES = 1
"""How a size of -1 is written."""

NO_EPOCH = -1
_PINNED_FACTOR_MAX = 4
"""How many times its own size a piece of an answer may keep in memory."""


def open_batch(
    buffer: Buffer, position: int, header: BatchHeader, partition: TopicPartition, start_offset: int
) -> list[Record]:
    """The records of the batch at `position` that are at `start_offset` or behind it."""
    verify_checksum(buffer, header, position)
    packed = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    records = None
    if 0 <= header.record_count <= header.last_offset_delta + 1:
        plain = bytes(decompress(header.compression, packed))
        with suppress(IndexError):
            records = _open_quickly(plain, header, partition)
    if records is None:
        records = _open_carefully(buffer, position, header, partition)
    if records and records[0].offset < start_offset:
        # A fetch into the middle of a batch gets the whole batch.
        return [record for record in records if record.offset >= start_offset]
    return records


def _timestamp_type(header: BatchHeader) -> TimestampType:
    return TimestampType.LOG_APPEND_TIME if header.is_log_append_time else TimestampType.CREATE_TIME


def _open_carefully(
    buffer: Buffer, position: int, header: BatchHeader, partition: TopicPartition
) -> list[Record]:
    kind = _timestamp_type(header)
    return [
        Record(*partition, each.offset, each.timestamp_ms, kind, each.key, each.value, each.headers)
        for each in decode_batch(buffer, position)
    ]


def _open_quickly(  # noqa: C901, PLR0912, PLR0915 - a call per field costs more than the reading.
    plain: bytes, header: BatchHeader, topic_partition: TopicPartition
) -> list[Record] | None:
    """None if anything does not fit.

    Varints of one or two bytes are read in place: nearly all are. The lowest bit of the first
    byte is the sign, and of sizes only -1 may have it. Sizes that are not negative only lead
    forward, so that a record whose parts end where it ends has none that is larger than that.
    """
    topic, partition = topic_partition
    kind = _timestamp_type(header)
    base_offset, last_offset = header.base_offset, header.last_offset
    base_ms, is_log_time = header.base_timestamp_ms, header.is_log_append_time
    timestamp_ms = header.max_timestamp_ms
    # The byte of the time before, if it had only one: neighbours often have the same time.
    timestamp_byte = -1
    new, record_type = tuple.__new__, Record
    no_headers: tuple[RecordHeader, ...] = ()
    records: list[Record] = []
    append = records.append
    cursor = 0
    for _ in range(header.record_count):
        byte = plain[cursor]
        if byte & 1:
            return None
        if byte < 0x80:
            end = cursor + 1 + (byte >> 1)
            cursor += 2
        elif (second := plain[cursor + 1]) < 0x80:
            end = cursor + 2 + ((byte & 0x7F | second << 7) >> 1)
            cursor += 3
        else:
            size, cursor = read_varint(plain, cursor)
            end = cursor + size
            cursor += 1
        byte = plain[cursor]
        if byte == timestamp_byte:
            cursor += 1
        else:
            delta_ms, cursor = read_varint(plain, cursor)
            timestamp_byte = byte if byte < 0x80 else -1
            if not is_log_time:
                timestamp_ms = base_ms + delta_ms
        byte = plain[cursor]
        if byte < 0x80:
            offset = base_offset + (byte >> 1)
            cursor += 1
        elif (second := plain[cursor + 1]) < 0x80:
            offset = base_offset + ((byte & 0x7F | second << 7) >> 1)
            cursor += 2
        else:
            offset_delta, cursor = read_varint(plain, cursor)
            offset = base_offset + offset_delta
        if byte & 1 or offset > last_offset:
            return None
        byte = plain[cursor]
        if byte == _NO_BYTES:
            key = None
            cursor += 1
        elif byte & 1:
            return None
        else:
            if byte < 0x80:
                begin = cursor + 1
                cursor = begin + (byte >> 1)
            elif (second := plain[cursor + 1]) < 0x80:
                begin = cursor + 2
                cursor = begin + ((byte & 0x7F | second << 7) >> 1)
            else:
                size, begin = read_varint(plain, cursor)
                cursor = begin + size
            key = plain[begin:cursor]
        byte = plain[cursor]
        if byte == _NO_BYTES:
            value = None
            cursor += 1
        elif byte & 1:
            return None
        else:
            if byte < 0x80:
                begin = cursor + 1
                cursor = begin + (byte >> 1)
            elif (second := plain[cursor + 1]) < 0x80:
                begin = cursor + 2
                cursor = begin + ((byte & 0x7F | second << 7) >> 1)
            else:
                size, begin = read_varint(plain, cursor)
                cursor = begin + size
            value = plain[begin:cursor]
        headers = no_headers
        if plain[cursor]:
            count, cursor = read_varint(plain, cursor)
            headers, cursor = read_headers(plain, cursor, end, count)
        else:
            cursor += 1
        if cursor != end:
            return None
        append(
            new(record_type, (topic, partition, offset, timestamp_ms, kind, key, value, headers))
        )
    return records if cursor == len(plain) else None


def _unpinned(batches: Buffer) -> Buffer:
    """A small piece of a large answer would keep all of it, and counts as what it is itself."""
    if not isinstance(batches, memoryview):
        return batches
    whole_size = len(memoryview(batches.obj))
    return bytes(batches) if len(batches) * _PINNED_FACTOR_MAX < whole_size else batches


class CompletedFetch:
    def __init__(
        self,
        partition: TopicPartition,
        batches: Buffer,
        aborted: Sequence[AbortedTransaction],
        fetch_offset: int,
    ) -> None:
        self.partition = partition
        self.size = len(batches)
        self.offset = fetch_offset
        """Of the next record that will be taken, or the one behind all of them."""
        self.epoch = NO_EPOCH
        """The leader epoch of what was taken last, if that is known."""
        self._batches = _unpinned(batches)
        self._aborted = aborted
        self.next_offset, self._last_epoch = self._end(fetch_offset)
        self._begin_records()
        self._rows: pa.RecordBatch | None = None
        self._columns: Collection[str] = ()

    def _end(self, fetch_offset: int) -> tuple[int, int]:
        last = None
        for header, _ in split(self._batches):
            last = header
        if last is None:
            raise RecordListTooLarge(
                f"{self.partition}: a batch does not fit into the {self.size} bytes asked for"
            )
        return max(fetch_offset, last.last_offset + 1), last.leader_epoch

    @property
    def is_done(self) -> bool:
        return self.offset >= self.next_offset

    def _finish(self) -> None:
        # Markers and aborted records take offsets too.
        self.offset = self.next_offset
        self.epoch = self._last_epoch

    # One by one

    def _begin_records(self) -> None:
        self._visible: Iterator[tuple[int, BatchHeader]] = visible_batches(
            self._batches, self._aborted
        )
        self._upcoming = next(self._visible, None)
        self._open: list[Record] = []
        self._header: BatchHeader | None = None
        self._index = 0

    def take(self, count_max: int) -> list[Record]:
        if self._rows is not None:
            self._rows = None
            self._begin_records()
        taken: list[Record] = []
        while len(taken) < count_max and not self.is_done:
            if self._index == len(self._open):
                self._open_next()
            else:
                self._take_open(taken, count_max - len(taken))
        return taken

    def _open_next(self) -> None:
        if self._upcoming is None:
            self._finish()
            return
        position, self._header = self._upcoming
        self._open = open_batch(self._batches, position, self._header, self.partition, self.offset)
        self._index = 0
        self._upcoming = next(self._visible, None)

    def _take_open(self, taken: list[Record], room: int) -> None:
        header = self._header
        assert header is not None
        part = self._open[self._index : self._index + room]
        self._index += len(part)
        taken += part
        self.epoch = header.leader_epoch
        if self._index < len(self._open):
            self.offset = self._open[self._index].offset
        elif self._upcoming is None:
            self._finish()
        else:
            self.offset = header.last_offset + 1

    # As columns

    def take_rows(self, count_max: int, columns: Collection[str]) -> "pa.RecordBatch":
        from semel.client.columns.decode import decode

        if self._rows is None or self._columns != columns:
            self._columns = columns
            self._rows = decode(
                self._batches,
                self.partition,
                start_offset=self.offset,
                aborted=self._aborted,
                columns=(*columns, *(() if "offset" in columns else ("offset",))),
            )
        taken = self._rows.slice(0, count_max)
        self._rows = self._rows.slice(taken.num_rows)
        if self._rows.num_rows:
            self.offset = self._rows.column("offset")[0].as_py()
            # The columns do not tell of it, and a wrong one would look like a log that was cut.
            self.epoch = NO_EPOCH
        else:
            self._finish()
        return taken.select(list(columns))

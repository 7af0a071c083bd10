"""What one fetch gave of one partition: handed out piece by piece, and opened as late as that."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from semel.client.consuming.committed import visible_batches
from semel.client.consuming.opening import open_batch
from semel.client.consuming.record import Record
from semel.errors import RecordListTooLarge
from semel.records.batch import BatchHeader, split
from semel.types import Buffer, TopicPartition
from semel.wire.messages.fetch import AbortedTransaction

if TYPE_CHECKING:
    import pyarrow as pa

NO_EPOCH = -1
_PINNED_FACTOR_MAX = 4
"""How many times its own size a piece of an answer may keep in memory."""


def _unpinned(batches: Buffer) -> Buffer:
    """A small piece of a large answer would keep all of it, and counts as what it is itself."""
    if not isinstance(batches, memoryview):
        return batches
    whole_size = len(memoryview(batches.obj))
    return bytes(batches) if len(batches) * _PINNED_FACTOR_MAX < whole_size else batches


class Chunk:
    def __init__(
        self,
        place: TopicPartition,
        batches: Buffer,
        aborted: Sequence[AbortedTransaction],
        fetch_offset: int,
    ) -> None:
        self.place = place
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
                f"{self.place}: a batch does not fit into the {self.size} bytes asked for"
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
        self._open = open_batch(self._batches, position, self._header, self.place, self.offset)
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
                self.place,
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

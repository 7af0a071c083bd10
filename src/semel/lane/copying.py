"""Copies a lane into a new journal, of whatever kind: its state, and every batch that can be read.

The state goes into the checkpoint by which the copy ends, as it is; but for where batches lie,
which are all in the journal then. They are appended in frames that nobody replays: what came of
them is in the state. So offsets keep their gaps, and a copy without that checkpoint is refused for
what it is.

Partitions take turns, so that what is old lies before what is new, and what lay side by side in the
source is read while it is at hand. Nothing is held but the state and a few chunks.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from semel.errors import CorruptJournal, CorruptMessage, FrameTooLarge
from semel.journal.seam import Journal
from semel.lane import facts, restoring, snapshot
from semel.lane.commands import LaneSettings
from semel.lane.frame import Frame
from semel.lane.opening import new_state
from semel.lane.partition_log import PartitionLog, Stored, Wanted
from semel.lane.state import LaneState
from semel.lane.transactions import ending_size
from semel.lane.view import PartitionView
from semel.log.transactions import Aborted
from semel.records import batch as record_batch
from semel.types import Buffer, Offset, Position, Term

ROUND_BYTES: Final = 16 * 2**20
"""Of all partitions together, in one turn of each."""
CHUNK_BYTES_MIN: Final = 16 * 1024
CHUNK_BYTES_MAX: Final = 2**20
FRAME_BYTES: Final = 2**20
UNCONFIRMED_BYTES: Final = 16 * 2**20
"""Appended and not durable, at most, if no frame is larger."""


class Copied(NamedTuple):
    batch_count: int
    byte_count: int


class Chunk(NamedTuple):
    partition: PartitionView
    batches: list[Buffer]
    aborted: list[Aborted]
    """Whose markers lie among them, or were there before compaction."""
    end: Offset


class CopyFailed(CorruptJournal):
    """Something of the source cannot be copied; the message says what."""


async def copy(
    state: LaneState,
    log: PartitionLog,
    target: Journal,
    settings: LaneSettings,
    on_progress: Callable[[int], None],
) -> Copied:
    """Into a journal in which there is nothing, and which is not started. It is closed when this
    returns. Raises CopyFailed, JournalFull, JournalFailed and OSError."""
    check_fits(state, target)
    made = copied_state(state, settings)
    copying = Copying(made, log, target, on_progress)
    await copying.run([*state.partitions.values()])
    return copying.copied


def check_fits(state: LaneState, target: Journal) -> None:
    """Raises FrameTooLarge if an open transaction could not be ended there."""
    largest = target.limits.payload_bytes_max
    for transaction in state.transactions.open():
        size = ending_size(transaction)
        if size > largest:
            raise FrameTooLarge(
                f"the end of the open transaction of {transaction.transactional_id} may take "
                f"{size} bytes, more than the {largest} that {target.limits.setting} allows: "
                f"end it first"
            )


def copied_state(state: LaneState, settings: LaneSettings) -> LaneState:
    made = new_state(settings, state.lane_number)
    restoring.restore(b"".join(snapshot.take(state)), made)
    made.forget_volumes()
    return made


class Copying:
    def __init__(
        self,
        state: LaneState,
        log: PartitionLog,
        target: Journal,
        on_progress: Callable[[int], None],
    ) -> None:
        self.copied = Copied(0, 0)
        self._state = state
        self._log = log
        self._target = target
        self._on_progress = on_progress
        self._is_whole = False
        self._failed: asyncio.Future[None]
        self._warnings: list[str] = []
        self._frame = self._new_frame()
        self._aborted: deque[tuple[int, Aborted]] = deque()
        """With how many batches of the frame they were complete: the last has ended it."""

    def _new_frame(self) -> Frame:
        assert self._state.last_moment is not None, "whoever opens a journal says so in it"
        frame = Frame(self._state.last_moment)
        frame.add_fact(facts.CopiedHere())
        return frame

    async def run(self, partitions: list[PartitionView]) -> None:
        target = self._target
        assert not list(target.replay()), "the journal is not new"
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        target.start(loop, _nobody_reads, self._snapshot, self._on_failure, self._warnings.append)
        try:
            await self._copy(partitions)
            self._is_whole = True
            await target.checkpoint_now()
        finally:
            await target.close()
            self._failed.cancel()
        if target.failure is not None:
            raise target.failure
        if self._warnings:
            raise CopyFailed("; ".join(self._warnings))

    def _snapshot(self) -> Iterator[bytes]:
        """Of the target while it is being filled: only its last checkpoint is ever restored."""
        return snapshot.take(self._state) if self._is_whole else iter(())

    def _on_failure(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)

    async def _copy(self, partitions: list[PartitionView]) -> None:
        turns = deque(
            (each, each.log_start_offset)
            for each in sorted(partitions, key=lambda each: each.number)
            if each.log_start_offset < each.log_end_offset
        )
        size = ROUND_BYTES // max(1, len(turns))
        size = max(CHUNK_BYTES_MIN, min(size, CHUNK_BYTES_MAX))
        while turns:
            partition, offset = turns.popleft()
            chunk = await self._read(partition, offset, size)
            if chunk is None:
                continue
            await self._add(chunk)
            if chunk.end < partition.log_end_offset:
                turns.append((partition, chunk.end))
        # One at least, so that a journal which is not whole says so.
        await self._append()

    async def _read(self, partition: PartitionView, offset: Offset, size: int) -> Chunk | None:
        """None if there is nothing any more: compaction may leave nothing at the end."""
        end = partition.log_end_offset
        found = await self._log.find([Wanted(partition, offset, end, size)], size)
        (stored,) = await self._log.read(found, with_aborted=False)
        if not isinstance(stored, Stored):
            raise CopyFailed(f"{partition.topic_partition} cannot be read: {stored}") from stored
        if not stored.batches:
            return None
        chunk_end = Offset(record_batch.read(stored.batches[-1]).last_offset + 1)
        aborted = await self._log.aborted_by_markers(partition, offset, chunk_end)
        return Chunk(partition, stored.batches, aborted, chunk_end)

    async def _add(self, chunk: Chunk) -> None:
        number = chunk.partition.number
        aborted = deque(chunk.aborted)
        for stored in chunk.batches:
            # What was read may be overwritten when more is.
            body = memoryview(bytes(stored))
            header = self._checked(chunk.partition, body)
            if self._frame.batches and self._frame.size + len(body) > FRAME_BYTES:
                await self._append()
            frame = self._frame
            base_offset = Offset(header.base_offset)
            frame.add_batch(number, base_offset, Term(header.leader_epoch), header, 0, body)
            while aborted and aborted[0].marker_offset <= header.last_offset:
                self._aborted.append((len(frame.batches), aborted.popleft()))
            self.copied = Copied(self.copied.batch_count + 1, self.copied.byte_count + len(body))

    @staticmethod
    def _checked(partition: PartitionView, body: memoryview) -> record_batch.BatchHeader:
        try:
            header = record_batch.read(body)
            record_batch.verify_checksum(body, header)
        except CorruptMessage as error:
            raise CopyFailed(
                f"a batch of {partition.topic_partition} is damaged: {error}"
            ) from error
        return header

    async def _append(self) -> None:
        frame, target = self._frame, self._target
        largest = target.limits.payload_bytes_max
        if frame.size > largest:
            raise FrameTooLarge(
                f"a batch of {frame.size} bytes, more than the {largest} that "
                f"{target.limits.setting} allows"
            )
        target.reserve(frame.size, 0)
        position = target.append(frame.encode(), frame.size)
        self._index(frame, position)
        self._frame, self._aborted = self._new_frame(), deque()
        self._on_progress(self.copied.byte_count)
        await self._until_durable(Position(target.end - UNCONFIRMED_BYTES))

    def _index(self, frame: Frame, position: Position) -> None:
        index = self._target.index
        for count, batch in enumerate(frame.batches, 1):
            header = batch.header
            index.add(
                batch.number,
                batch.base_offset,
                position + batch.at,
                len(batch.body),
                header.max_timestamp_ms,
                header.last_offset_delta,
            )
            while self._aborted and self._aborted[0][0] == count:
                index.add_aborted(batch.number, self._aborted.popleft()[1])

    async def _until_durable(self, position: Position) -> None:
        reached = asyncio.get_running_loop().create_future()

        def reach() -> None:
            if not reached.done():
                reached.set_result(None)

        self._target.when_durable(position, reach)
        await asyncio.wait((reached, self._failed), return_when=asyncio.FIRST_COMPLETED)
        if self._failed.done():
            self._failed.result()


def _nobody_reads(durable: Position) -> None:
    """What is copied is read by others, later."""

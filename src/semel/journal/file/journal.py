"""The journal in files of one folder: frames in segments, an index beside each, two checkpoints.

Written means that the kernel has it, durable that it was synced.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Final, NamedTuple

from semel.durations import Durations
from semel.errors import CorruptJournal, JournalFailed
from semel.journal import names
from semel.journal.file import formats, note
from semel.journal.file.background import BackgroundJobs, Publication
from semel.journal.file.checkpoints import Checkpoint
from semel.journal.file.commit import GroupCommit, SyncReason
from semel.journal.file.device import Device, read_beside
from semel.journal.file.formats import ANY_CONTENTS, Contents
from semel.journal.file.mending import Mending
from semel.journal.file.recovery import Recovered, recover
from semel.journal.file.segments import Segments
from semel.journal.file.settings import JournalSettings
from semel.journal.file.walk import Walk
from semel.journal.frames import HEADER_SIZE, head
from semel.journal.index import BatchIndex
from semel.journal.seam import JournalAbandoned, SealedStretches
from semel.journal.tail import Tail
from semel.types import Buffer, Position

PIECE_REST_S: Final = 0.001
"""Between two pieces of a snapshot, each of which takes about as long."""


class Taking(NamedTuple):
    """A checkpoint whose snapshot is being taken."""

    checkpoint: Checkpoint
    pieces: Iterator[bytes]
    opened: Generator[None, None, Buffer]


class FileJournal:
    def __init__(
        self, device: Device, settings: JournalSettings, found: Recovered, contents: Contents
    ) -> None:
        self.end = found.end
        self.frames_appended = 0
        self.bytes_appended = 0
        self.may_miss_acknowledged = found.may_miss_acknowledged
        self.epoch: int | None = None
        self.incarnation = found.note.incarnation
        self.settings = settings
        self.limits = settings.limits
        self.segments = Segments(
            device, settings, found.bases, found.limit, found.preallocated_size
        )
        self.index = BatchIndex(device.read_now)
        self._device = device
        self.index.not_held_to(found.end)
        self._tail = Tail(settings.tail_bytes, self.index.not_held_to)
        self._checksum = found.checksum
        self._commit = GroupCommit(
            device, found.end, settings.flush_interval_ms, settings.group_commit
        )
        self._commit.sync_counts[SyncReason.OPEN] = 1
        self._commit.roll_to(names.segment(self.segments.base), self.segments.base, renamed=False)
        self._snapshot: Callable[[], Iterator[bytes]] | None = None
        self._taking: Taking | None = None
        self._is_due_again = False
        """The next was due while a snapshot was under way: it follows at once."""
        self._when_taken: list[Callable[[], None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._background = BackgroundJobs(device, self.index, found.start.positions)
        checkpoint = found.start.checkpoint
        self.checkpoint = None if checkpoint is None else b"".join(checkpoint.state)
        self._checkpoint_position = 0 if checkpoint is None else checkpoint.position
        self._taken_position = self._checkpoint_position
        self._checkpoint_checksum = 0 if checkpoint is None else checkpoint.checksum
        self._replayed = False
        self._sealed_count = 0 if checkpoint is None else len(checkpoint.sealed_bases)
        """Of the segments, those that the index knows, until all are replayed."""
        self._sealed_in_replay = False
        self._unindexed = found.start.unindexed
        self._batches_of = contents.batches_of
        self._note = found.note
        self._in_doubt = found.may_miss_acknowledged
        self._is_note_in_doubt = found.may_miss_acknowledged
        """No frame behind the doubt is durable yet."""
        self._tell_failure: Callable[[BaseException], None]
        self._missed: int | None = None
        """What was last found to be on the disk alone: to ask again would start to read it."""
        self._answers: list[asyncio.Event] = []
        self._is_closed = False
        """Others may have the folder."""
        if checkpoint is not None and found.start.opened is not None:
            self.index.restore(checkpoint.sealed_bases, found.start.opened)

    @classmethod
    def open(
        cls, device: Device, settings: JournalSettings, contents: Contents = ANY_CONTENTS
    ) -> "FileJournal":
        """Takes the folder, recovers what is there and makes it durable. Blocking.

        Raises NewerFormat, FolderInUse, CorruptJournal, and JournalFailed if the device refuses.
        """
        try:
            # Before the lock as well, which makes a file where there is none.
            formats.read_first(device)
            device.acquire()
            try:
                return cls(device, settings, recover(device, settings, contents), contents)
            except BaseException:
                device.stop()
                raise
        except OSError as error:
            raise JournalFailed(f"the journal cannot be opened: {error}") from error

    def replay(self) -> Iterator[tuple[Position, memoryview]]:
        """The payload of each frame behind the checkpoint, and where its first byte stands.

        Its batches must be added to `index` before the next is asked for. Once, before `start`.
        """
        bases = self.segments.bases
        walk = Walk(self._device, bases, self._checkpoint_position, self._checkpoint_checksum)
        for position, payload in walk:
            while self._sealed_count < walk.segment:
                self._seal_replayed()
            yield Position(position + HEADER_SIZE), payload
        if walk.end != self.end:
            name, offset = self.segments.locate(walk.end)
            raise CorruptJournal(f"{name}, byte {offset}: {walk.reason}; it changed since the open")
        while self._sealed_count < len(bases) - 1:
            self._seal_replayed()
        self._mend_indexes()
        self._replayed = True

    def _mend_indexes(self) -> None:
        """When all is replayed: what is before the segments may lie in volumes by then."""
        if self._unindexed:
            assert self._batches_of is not None
            bases = self.segments.bases.tolist()
            try:
                Mending(self._device, self.index, bases, self._batches_of).mend(self._unindexed)
            except OSError as error:
                raise JournalFailed(f"a lost index cannot be built again: {error}") from error

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[Position], None],
        snapshot: Callable[[], Iterator[bytes]],
        on_failure: Callable[[BaseException], None],
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """From here on frames may be appended. Warnings are logged unless someone takes them.

        `snapshot` gives the lane's state as of all frames appended so far, piece by piece, whatever
        is appended before the last is taken. It is called here, when room is reserved that opens a
        new segment, when a checkpoint is asked for, and at the close.
        """
        assert self._replayed or self.end == self._checkpoint_position
        self._loop = loop
        self._snapshot = snapshot
        self._tell_failure = on_failure
        self.checkpoint = None
        if on_warning is not None:
            self._background.on_warning = on_warning
        self.segments.on_warning = self._background.on_warning
        self._device.start(loop)
        self._commit.start(loop, on_durable, self._on_failure, self._note_error)
        self.segments.start(loop, lambda error: self._commit.fail(error, "preparing a segment"))
        if self._sealed_in_replay:
            self._begin_checkpoint()

    @property
    def written(self) -> Position:
        return self._commit.written

    @property
    def durable(self) -> Position:
        return self._commit.durable

    @property
    def failure(self) -> JournalFailed | None:
        return self._commit.failure

    @property
    def writes(self) -> int:
        return self._commit.write_count

    @property
    def sync_durations(self) -> Durations:
        return self._commit.sync_durations

    @property
    def sync_counts(self) -> Counter[SyncReason]:
        return self._commit.sync_counts

    @property
    def unused_bytes(self) -> int:
        """Allocated, and not yet written to."""
        return self.segments.limit - self.end + self.segments.preallocated_size

    def reserve(self, size: int, kept_size: int) -> None:
        """Raises JournalFull unless a payload of this size can be appended now.

        Frames of `kept_size` bytes must fit behind it. If the payload needs a new segment, that
        is opened here, before the frame is applied, so that the checkpoint at its beginning
        holds nothing of the frame to come.
        """
        frame_size = HEADER_SIZE + size
        segments = self.segments
        if self.end + frame_size > segments.limit or kept_size > segments.preallocated_size:
            segments.require(self.end, frame_size, kept_size)
        if self._commit.failure is not None:
            raise self._commit.failure
        if self.end + frame_size > segments.limit:
            self._roll()

    def room(self, kept_size: int) -> int:
        """Bytes of payload that surely fit now and leave room for frames of `kept_size` bytes."""
        return max(0, self.segments.room(self.end, kept_size) - HEADER_SIZE)

    def append(self, parts: list[Buffer], size: int) -> Position:
        """Fixes the order; returns where the payload begins. `end` is then what to wait for."""
        commit = self._commit
        if commit.failure is not None:
            raise commit.failure
        position = self.end
        start = Position(position + HEADER_SIZE)
        end = Position(start + size)
        assert end <= self.segments.limit, "room for this frame was not reserved"
        header, self._checksum = head(
            parts, size, self._checksum, position, self.incarnation, commit.durable
        )
        self.end = end
        self.frames_appended += 1
        self.bytes_appended += end - position
        commit.add(header, parts, end)
        self._tail.add(start, parts)
        if self._in_doubt:
            self._in_doubt = False
            commit.when_durable(end, self._clear_doubt)
        return start

    def _clear_doubt(self) -> None:
        """The lane's answer is durable, so that whoever finds the journal here need not doubt."""
        try:
            self._note = self._note._replace(identity=self._device.identity())
            self._write_note()
            self._is_note_in_doubt = False
            note.write_failed(self._device, failed=False)
        except OSError as error:
            self._commit.fail(error, "noting that the journal is whole")

    def _write_note(self) -> None:
        self._note = self._note._replace(durable=self._commit.durable)
        note.write(self._device, self._note)

    def fail(self, error: Exception, deed: str) -> None:
        """Nothing is written any more, as after a failed write."""
        self._commit.fail(error, deed)

    def abandon(self) -> None:
        """Steps down: nothing is written any more, and `on_failure` hears JournalAbandoned."""
        self._commit.end(JournalAbandoned("the lane has stepped down"))

    def barrier(self, callback: Callable[[], None]) -> None:
        """Once all that was appended is durable. The lock says that nobody else has the journal."""
        self._commit.when_durable(self.end, callback)

    def when_written(self, position: Position, callback: Callable[[], None]) -> None:
        self._commit.when_written(position, callback)

    def write(self) -> None:
        self._commit.flush()

    def when_durable(self, position: Position, callback: Callable[[], None]) -> None:
        self._commit.when_durable(position, callback)

    async def read(self, position: Position, size: int) -> Buffer:
        """Bytes of one frame that is written."""
        (found,) = await self.read_all([(position, size)])
        return found

    @property
    def held_from(self) -> Position:
        start = self._tail.start
        return self.end if start is None else Position(start)

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        """As `read_all`, if nothing of it has to be fetched from the disk; else None."""
        held = self._held(extents)
        if len(held) == len(extents):
            return held
        found: list[memoryview] = []
        for run in self.segments.runs(extents[: len(extents) - len(held)]):
            name, offset = self.segments.locate(run.position)
            stored = self._device.read_now(name, offset, run.size)
            if stored is None or len(stored) != run.size:
                self._missed = run.position
                return None
            found += run.cut(stored)
        return found + held

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """The bytes at these positions, which rise, in these sizes; neighbours are read at once.

        Raises CorruptJournal or OSError.
        """
        held = self._held(extents)
        found: list[memoryview] = []
        for run in self.segments.runs(extents[: len(extents) - len(held)]):
            try:
                found += run.cut(await self._read(run.position, run.size))
                continue
            except (CorruptJournal, OSError):
                pass
            # What cannot be read may lie between them.
            for start, stop in run.pieces:
                piece = await self._read(run.position + start, stop - start)
                found.append(memoryview(piece))
        return found + held

    def _held(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """The last of them, as far as they are in memory: behind the first that is, all are."""
        assert not extents or sum(extents[-1]) <= self._commit.written
        held: list[memoryview] = []
        for position, size in reversed(extents):
            piece = self._tail.read(position, size)
            if piece is None:
                break
            held.append(memoryview(piece))
        held.reverse()
        return held

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        """What a lookup in the index misses. Raises OSError."""
        return await read_beside(self._device, name, offset, size)

    async def _read(self, position: int, size: int) -> Buffer:
        name, offset = self.segments.locate(position)
        is_missed, self._missed = position == self._missed, None
        stored = None if is_missed else self._device.read_now(name, offset, size)
        if stored is None:
            stored = await read_beside(self._device, name, offset, size)
        if len(stored) != size:
            raise CorruptJournal(f"{name}, byte {offset}: {len(stored)} of {size} bytes are there")
        return stored

    @property
    def is_short_of_room(self) -> bool:
        return self.segments.is_short_of_room

    @property
    def stored_bytes(self) -> int:
        """Of the segments, with what is allocated for the next."""
        return self.segments.limit - self.segments.bases[0] + self.segments.preallocated_size

    def make_room(self) -> None:
        if self.segments.is_short_of_room:
            self.segments.drop_ballast()

    def look_for_room(self) -> None:
        self.segments.preallocate()

    async def checkpoint_now(self) -> None:
        """The next start replays only what is appended after this. A failure is only a warning."""
        end = self.end
        while self._taken_position < end and self._commit.failure is None:
            if self._taking is None:
                self._begin_checkpoint()
            await self._wait(self._when_taken.append)
        await self._wait(
            lambda done: self._commit.when_durable(
                self._taken_position, done, SyncReason.CHECKPOINT
            )
        )
        await self._wait(self._background.when_idle)

    def roll(self, kept_size: int) -> bool:
        """The rest of the open segment is given up, if another is allocated already."""
        segments = self.segments
        if self._commit.failure is not None or self.end == segments.base:
            return False
        whole = max(self.settings.segment_bytes, kept_size)
        if segments.is_short_of_room or segments.preallocated_size < whole:
            return False
        self._roll()
        return True

    def sealed(self) -> SealedStretches:
        """Those that the newest checkpoint has behind it."""
        bases = self.segments.bases
        count = bisect_right(bases, self._background.newest_checkpoint) - 1
        return SealedStretches(bases[: max(0, count) + 1])

    def release_before(self, position: Position) -> bool:
        """Unlinks the sealed segments before it that lie behind both checkpoints."""
        bases = self.segments.bases
        wanted = bisect_right(bases, position) - 1
        count = min(wanted, bisect_right(bases, self._background.oldest_checkpoint) - 1)
        if self._is_note_in_doubt or self._commit.failure is not None:
            return False
        if count > 0:
            released = bases[:count].tolist()
            self.segments.release(count)
            self.index.release_before(bases[0])
            self._note = self._note._replace(
                durable=self._commit.durable, released=self.segments.bases[0]
            )
            self._background.release(self._note, released)
        return wanted <= count

    async def close(self) -> None:
        """Makes all of it durable, leaves a checkpoint and gives the folder free."""
        try:
            if self._loop is not None:
                await self._finish()
        finally:
            # Whoever opens the folder next must be alone in it, also if the wait was cancelled.
            self._background.finish()
            self._is_closed = True
            self._device.stop()

    async def _finish(self) -> None:
        self._commit.flush()
        await self._wait(lambda done: self._commit.when_durable(self.end, done, SyncReason.CLOSE))
        await self.checkpoint_now()
        await self._wait(self._background.when_idle)
        # What a failure leaves under way ends by itself. Others have the loop meanwhile: where one
        # lane ends, the process may lead more.
        await _until(self._device.end_threads)
        self._background.begin_no_more()
        await _until(self._background.when_idle)
        await _until(self.segments.when_preallocated)
        if self._commit.failure is None:
            self._write_note()
        else:
            # A sync under way may yet fail, which whoever opens the folder next has to know.
            await _until(self._commit.when_idle)

    async def _wait(self, ask: Callable[[Callable[[], None]], None]) -> None:
        """Until it calls back, or the journal has failed and never will."""
        assert self._loop is not None
        if self._commit.failure is not None:
            return
        answer = asyncio.Event()
        self._answers.append(answer)
        ask(answer.set)
        await answer.wait()
        self._answers.remove(answer)

    def _roll(self) -> None:
        """What is appended next opens a new segment."""
        boundary, base = self.end, self.segments.base
        try:
            name = self.segments.roll(boundary)
        except OSError as error:
            self._commit.fail(error, "naming the next segment")
            assert self._commit.failure is not None
            raise self._commit.failure from error
        self.index.seal(base, boundary)
        self._commit.roll_to(name, boundary, renamed=True)
        self._commit.when_durable(
            boundary, lambda: self._background.trim_later(base, boundary), SyncReason.ROLL
        )
        self._begin_checkpoint()

    # Checkpoints.

    def _begin_checkpoint(self) -> None:
        """Begin a checkpoint of the state as it is now. Law: one at a time, and never in a step."""
        if self._taking is not None:
            self._is_due_again = True
            return
        assert self._snapshot is not None
        bases = self.segments.bases
        self._is_due_again = False
        checkpoint = Checkpoint(
            position=self.end,
            checksum=self._checksum,
            incarnation=self.incarnation,
            sealed_bases=bases[:-1],
            opened=b"",
            state=[],
        )
        self._checkpoint_position = self.end
        opened = self.index.encode_open(bases[-1], self.end)
        self._taking = Taking(checkpoint, self._snapshot(), opened)
        self._plan_piece()

    def _plan_piece(self) -> None:
        """Others have their turn before the next piece, and as much time unless it is urgent."""
        assert self._loop is not None
        if self._is_due_again or self._when_taken:
            self._loop.call_soon(self._take_piece)
        else:
            self._loop.call_later(PIECE_REST_S, self._take_piece)

    def _take_piece(self) -> None:
        taking = self._taking
        assert taking is not None
        if self._commit.failure is not None:
            return
        try:
            taking.checkpoint.state.append(next(taking.pieces))
        except StopIteration:
            self._publish_when_durable(Publication(taking.checkpoint, taking.opened))
        except Exception as error:  # noqa: BLE001 - every frame is still there to be replayed.
            self._background.warn(error)
        else:
            self._plan_piece()
            return
        self._taking = None
        self._taken_position = taking.checkpoint.position
        if self._is_due_again:
            self._begin_checkpoint()
        waiting, self._when_taken = self._when_taken, []
        for callback in waiting:
            callback()

    def _publish_when_durable(self, publication: Publication) -> None:
        self._commit.when_durable(
            publication.checkpoint.position,
            lambda: self._background.publish(publication),
            SyncReason.CHECKPOINT,
        )

    def _seal_replayed(self) -> None:
        segment = self._sealed_count
        self._sealed_count += 1
        bases = self.segments.bases
        self.index.seal(bases[segment], bases[segment + 1])
        self._background.write_indexes_now()
        self._sealed_in_replay = True

    def _note_error(self) -> None:
        """Note a failed write: who opens the folder next must doubt that all is there."""
        if not self._is_closed:
            # Best effort: a disk that refuses even this is one more error of the same kind.
            with contextlib.suppress(OSError):
                note.write_failed(self._device, failed=True)

    def _on_failure(self, failure: JournalFailed) -> None:
        for answer in self._answers:
            answer.set()
        self._tell_failure(failure)


async def _until(ask: Callable[[Callable[[], None]], None]) -> None:
    """Until it calls back, which it does also if the journal has failed."""
    answer = asyncio.Event()
    ask(answer.set)
    await answer.wait()

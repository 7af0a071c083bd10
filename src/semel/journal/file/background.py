"""What a sealed segment leaves to be done in the background: trim it, write its index, checkpoint.

A failure here loses nothing, since every frame is still there to be replayed: it is a warning, and
the next checkpoint does it all.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from semel.journal import names
from semel.journal.file import checkpoints, note
from semel.journal.file.checkpoints import KEPT_COUNT, Checkpoint
from semel.journal.file.device import Device, Done, Job, JobHandle
from semel.journal.file.note import Note
from semel.journal.index import BatchIndex
from semel.journal.index_in_memory import IndexInMemory
from semel.types import Buffer


class Publication(NamedTuple):
    """A checkpoint to publish; everything before its position is durable."""

    checkpoint: Checkpoint
    opened: Generator[None, None, Buffer]
    """Encodes the index of the segment that holds the position, in small steps."""


class BackgroundJobs:
    def __init__(self, device: Device, index: BatchIndex, positions: Sequence[int]) -> None:
        self.on_warning: Callable[[str], None] = _log
        self._device = device
        self._index = index
        self._positions = list(positions)
        """Of the checkpoints on the device."""
        self._untrimmed: list[tuple[str, int]] = []
        self._waiting: Publication | None = None
        self._releases: list[tuple[Note, Sequence[int]]] = []
        self._job: JobHandle | None = None
        self._when_idle: list[Callable[[], None]] = []

    def trim_later(self, base: int, end: int) -> None:
        """The segment is sealed and durable, with unused room behind `end`."""
        self._untrimmed.append((names.segment(base), end - base))

    def publish(self, publication: Publication) -> None:
        """Write a checkpoint, one at a time; a newer one replaces one that waits."""
        self._waiting = publication
        if self._job is None:
            self._start(publication)

    @property
    def newest_checkpoint(self) -> int:
        """Its position; 0 if there is none. All segments before it have their index files."""
        return self._positions[-1] if self._positions else 0

    @property
    def oldest_checkpoint(self) -> int:
        """Its position, if there is another behind it to fall back to; else 0."""
        return self._positions[0] if len(self._positions) >= KEPT_COUNT else 0

    def release(self, noted: Note, bases: Sequence[int]) -> None:
        """Unlink these segments and their indexes; the note says that they are given up."""
        self._releases.append((noted, bases))
        if self._job is None:
            self._start_release()

    def _start_release(self) -> None:
        noted, bases = self._releases.pop(0)
        self._run(_release(self._device, noted, bases), self._on_released)

    def _on_released(self, error: Exception | None) -> None:
        if error is not None:
            self.on_warning(f"old segments are not removed, the next start does it: {error}")

    def begin_no_more(self) -> None:
        """What is not begun is left to whoever opens the folder next."""
        self._waiting = None
        self._releases.clear()

    def finish(self) -> None:
        """Waits for the job at hand; none follows."""
        self.begin_no_more()
        if self._job is not None:
            self._job.finish()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call this when all that was asked for is done or has failed; at once if it is."""
        if self._job is None:
            callback()
        else:
            self._when_idle.append(callback)

    def write_indexes_now(self) -> None:
        """Blocking, for the replay: the indexes of a long journal must not pile up in memory."""
        unpublished = self._index.unpublished()
        try:
            for _ in checkpoints.write_indexes(self._device, unpublished):
                pass
        except OSError as error:
            self.warn(error)
        else:
            self._published(unpublished)

    def _start(self, publication: Publication) -> None:
        self._waiting = None
        position = publication.checkpoint.position
        indexes = [each for each in self._index.unpublished() if each.base < position]
        trims, self._untrimmed = self._untrimmed, []
        kept = [each for each in self._positions if each != position]
        older = kept[: max(len(kept) - (KEPT_COUNT - 1), 0)]

        def on_done(error: Exception | None) -> None:
            if error is None:
                self._published(indexes)
                self._positions = [*kept[len(older) :], position]
            else:
                self._untrimmed = [*trims, *self._untrimmed]
                self.warn(error)

        self._run(_publish(self._device, trims, indexes, publication, older), on_done)

    def _run(self, job: Job, on_done: Done) -> None:
        def done(error: Exception | None) -> None:
            self._job = None
            on_done(error)
            if self._waiting is not None:
                self._start(self._waiting)
            elif self._releases:
                self._start_release()
            else:
                idle, self._when_idle = self._when_idle, []
                for callback in idle:
                    callback()

        self._job = self._device.submit(job, done)

    def _published(self, indexes: Sequence[IndexInMemory]) -> None:
        for each in indexes:
            self._index.published(each.base)

    def warn(self, error: Exception) -> None:
        self.on_warning(f"no checkpoint, so the next start replays more: {error}")


def _log(warning: str) -> None:
    import structlog

    structlog.wrap_logger(structlog.PrintLogger(sys.stderr)).warning(warning)


def _publish(
    device: Device,
    trims: Sequence[tuple[str, int]],
    indexes: Sequence[IndexInMemory],
    publication: Publication,
    older: Sequence[int],
) -> Job:
    for name, size in trims:
        # It may have been given up since.
        with contextlib.suppress(FileNotFoundError):
            device.truncate(name, size)
        yield
    yield from checkpoints.publish(device, indexes, *publication, older)


def _release(device: Device, noted: Note, bases: Sequence[int]) -> Job:
    # Noted before anything is gone: a start must not take for damage what was given up.
    note.write(device, noted)
    yield
    for base in bases:
        remove_segment(device, base)
        yield


def remove_segment(device: Device, base: int) -> None:
    device.remove(names.index(base))
    device.remove(names.segment(base))

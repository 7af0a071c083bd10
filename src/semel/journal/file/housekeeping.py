"""What a sealed segment leaves to be done in the background: trim it, write its index, checkpoint.

A failure here loses nothing, since every frame is still there to be replayed: it is a warning, and
the next checkpoint does it all.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from semel.journal import names
from semel.journal.file import checkpoints
from semel.journal.file.checkpoints import KEPT_COUNT, Checkpoint
from semel.journal.file.device import Device, Job, JobHandle
from semel.journal.index import BatchIndex, UnpublishedIndex


class Publication(NamedTuple):
    """A checkpoint to publish; everything before its position is durable."""

    checkpoint: Checkpoint
    opened: Generator[None, None, bytes]
    """Encodes the index of the segment that holds the position, in small steps."""


class Housekeeping:
    def __init__(self, device: Device, index: BatchIndex, positions: Sequence[int]) -> None:
        self.on_warning: Callable[[str], None] = _log
        self._device = device
        self._index = index
        self._positions = list(positions)
        """Of the checkpoints on the device."""
        self._untrimmed: list[tuple[str, int]] = []
        self._waiting: Publication | None = None
        self._job: JobHandle | None = None
        self._when_idle: list[Callable[[], None]] = []

    def trim_later(self, base: int, end: int) -> None:
        """The segment is sealed and durable, with unused room behind `end`."""
        self._untrimmed.append((names.segment(base), end - base))

    def publish(self, publication: Publication) -> None:
        """One at a time; a newer one replaces one that waits."""
        self._waiting = publication
        if self._job is None:
            self._start(publication)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """At once, or when all that was asked for is done or has failed."""
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
            self._job = None
            if error is None:
                self._published(indexes)
                self._positions = [*kept[len(older) :], position]
            else:
                self._untrimmed = [*trims, *self._untrimmed]
                self.warn(error)
            if self._waiting is not None:
                self._start(self._waiting)
            else:
                idle, self._when_idle = self._when_idle, []
                for callback in idle:
                    callback()

        job = _run(self._device, trims, indexes, publication, older)
        self._job = self._device.submit(job, on_done)

    def _published(self, indexes: Sequence[UnpublishedIndex]) -> None:
        for each in indexes:
            self._index.published(each.base)

    def warn(self, error: Exception) -> None:
        self.on_warning(f"no checkpoint, so the next start replays more: {error}")


def _log(warning: str) -> None:
    import structlog

    structlog.wrap_logger(structlog.PrintLogger(sys.stderr)).warning(warning)


def _run(
    device: Device,
    trims: Sequence[tuple[str, int]],
    indexes: Sequence[UnpublishedIndex],
    publication: Publication,
    older: Sequence[int],
) -> Job:
    for name, size in trims:
        device.truncate(name, size)
        yield
    yield from checkpoints.publish(device, indexes, *publication, older)

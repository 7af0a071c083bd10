"""What a sealed segment leaves to be done in the background: trim it, write its index, checkpoint.

A failure here loses nothing, since every frame is still there to be replayed: it is a warning, and
the next checkpoint does it all.
"""

import sys
from collections.abc import Callable, Sequence

from semel.journal import names
from semel.journal.file import checkpoints
from semel.journal.file.checkpoints import KEPT_COUNT, Checkpoint
from semel.journal.file.device import Device, Job, JobHandle
from semel.journal.index import BatchIndex


class Housekeeping:
    def __init__(self, device: Device, index: BatchIndex, positions: Sequence[int]) -> None:
        self.on_warning: Callable[[str], None] = _log
        self._device = device
        self._index = index
        self._positions = list(positions)
        """Of the checkpoints on the device."""
        self._untrimmed: list[tuple[str, int]] = []
        self._waiting: Checkpoint | None = None
        self._job: JobHandle | None = None
        self._when_idle: list[Callable[[], None]] = []

    def trim_later(self, base: int, end: int) -> None:
        """The segment is sealed and durable, with unused room behind `end`."""
        self._untrimmed.append((names.segment(base), end - base))

    def publish(self, checkpoint: Checkpoint) -> None:
        """Everything before it is durable. One at a time; a newer one replaces one that waits."""
        self._waiting = checkpoint
        if self._job is None:
            self._start(checkpoint)

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

    def _start(self, checkpoint: Checkpoint) -> None:
        self._waiting = None
        indexes = [entry for entry in self._index.unpublished() if entry[0] < checkpoint.position]
        trims, self._untrimmed = self._untrimmed, []
        kept = [position for position in self._positions if position != checkpoint.position]
        older = kept[: max(len(kept) - (KEPT_COUNT - 1), 0)]

        def on_done(error: Exception | None) -> None:
            self._job = None
            if error is None:
                self._published(indexes)
                self._positions = [*kept[len(older) :], checkpoint.position]
            else:
                self._untrimmed = [*trims, *self._untrimmed]
                self.warn(error)
            if self._waiting is not None:
                self._start(self._waiting)
            else:
                idle, self._when_idle = self._when_idle, []
                for callback in idle:
                    callback()

        job = _run(self._device, trims, indexes, checkpoint, older)
        self._job = self._device.submit(job, on_done)

    def _published(self, indexes: Sequence[tuple[int, bytes]]) -> None:
        for base, _ in indexes:
            self._index.published(base)

    def warn(self, error: Exception) -> None:
        self.on_warning(f"no checkpoint, so the next start replays more: {error}")


def _log(warning: str) -> None:
    import structlog

    structlog.wrap_logger(structlog.PrintLogger(sys.stderr)).warning(warning)


def _run(
    device: Device,
    trims: Sequence[tuple[str, int]],
    indexes: Sequence[tuple[int, bytes]],
    checkpoint: Checkpoint,
    older: Sequence[int],
) -> Job:
    for name, size in trims:
        device.truncate(name, size)
        yield
    yield from checkpoints.publish(device, indexes, checkpoint, older)

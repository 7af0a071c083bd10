"""The segments of the journal: which file holds a position, and whether there is room for a frame.

Room means blocks that are already allocated: what is left of the open segment, and a whole one
prepared ahead in the background. So a full disk is met before anything was decided.
"""

import asyncio
import contextlib
import errno
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from semel.errors import JournalFull
from semel.journal import names
from semel.journal.device import Device, Job, JobHandle
from semel.journal.frames import HEADER_SIZE
from semel.journal.settings import JournalSettings

GAP_MAX: Final = 16 * 1024
"""Bytes between two pieces that cost less to read than another call would."""

RUN_SIZE_MAX: Final = 4 * 2**20
"""Bytes. What lies between the pieces is held in memory until they are taken out of it."""


class Run(NamedTuple):
    """Neighbouring pieces of one segment, read at once."""

    position: int
    pieces: list[tuple[int, int]]
    """Where each piece begins and ends in the run."""

    @property
    def size(self) -> int:
        return self.pieces[-1][1]

    @property
    def is_mostly_gaps(self) -> bool:
        return self.size > 2 * sum(stop - start for start, stop in self.pieces)


class Segments:
    def __init__(
        self, device: Device, settings: JournalSettings, bases: Sequence[int], limit: int
    ) -> None:
        self.bases = array("q", bases)
        self.limit = limit
        """Where the open segment ends."""
        self.ordinary_limit = limit - settings.headroom
        """Up to where a frame that is not urgent fits without asking further."""
        self._device = device
        self._size = settings.segment_bytes
        self._headroom = settings.headroom
        self._retry_s = settings.allocation_retry_ms / 1000
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_failure: Callable[[Exception], None]
        self._prepared = False
        self._preparing: JobHandle | None = None
        self._refusal: OSError | None = None
        self._retry_at_s = 0.0

    def start(
        self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[Exception], None]
    ) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self._prepare()

    @property
    def base(self) -> int:
        """Where the open segment begins."""
        return self.bases[-1]

    def locate(self, position: int) -> tuple[str, int]:
        """The file that holds this position, and the offset in it."""
        base = self.bases[bisect_right(self.bases, position) - 1]
        return names.segment(base), position - base

    def runs(self, pieces: list[tuple[int, int]]) -> list[Run]:
        """Gathers pieces, given by rising position and by size, into as few reads as is wise."""
        runs: list[Run] = []
        start = end = boundary = -1
        for position, size in pieces:
            if (
                position < boundary
                and position - end <= GAP_MAX
                and position + size - start <= RUN_SIZE_MAX
            ):
                runs[-1].pieces.append((position - start, position - start + size))
            else:
                start = position
                place = bisect_right(self.bases, position)
                boundary = self.bases[place] if place < len(self.bases) else self.limit
                runs.append(Run(start, [(0, size)]))
            end = position + size
        return runs

    def require(self, end: int, size: int, *, urgent: bool) -> None:
        """Raises JournalFull unless a frame with a payload of this size fits."""
        frame_size = HEADER_SIZE + size
        headroom = 0 if urgent else self._headroom
        if self._fits(end, frame_size, headroom):
            return
        if self._preparing is not None and self._refusal is None:
            # The disk is only slower than we are: waiting for it beats refusing.
            self._preparing.finish()
            if self._fits(end, frame_size, headroom):
                return
        self._prepare()
        raise JournalFull(self._sentence(frame_size))

    def turn(self, boundary: int) -> str:
        """The prepared segment becomes the open one."""
        assert self._prepared
        name = names.segment(boundary)
        self._device.rename(names.PREPARED, name)
        self._prepared = False
        self.bases.append(boundary)
        self._set_limit(boundary + self._size)
        self._prepare()
        return name

    def settle(self) -> None:
        """Waits for the segment being prepared."""
        if self._preparing is not None:
            self._preparing.finish()

    def _fits(self, end: int, frame_size: int, headroom: int) -> bool:
        left = self.limit - end
        if self._prepared:
            return frame_size <= left or frame_size + headroom <= self._size
        return frame_size + headroom <= left

    def _set_limit(self, limit: int) -> None:
        self.limit = limit
        self.ordinary_limit = limit if self._prepared else limit - self._headroom

    def _prepare(self) -> None:
        if self._loop is None or self._prepared or self._preparing is not None:
            return
        if self._refusal is not None and self._loop.time() < self._retry_at_s:
            return
        self._preparing = self._device.submit(_prepare(self._device, self._size), self._on_prepared)

    def _on_prepared(self, error: Exception | None) -> None:
        self._preparing = None
        if error is None:
            self._refusal = None
            self._prepared = True
            self._set_limit(self.limit)
        elif isinstance(error, OSError):
            assert self._loop is not None
            self._refusal = error
            self._retry_at_s = self._loop.time() + self._retry_s
        else:
            self._on_failure(error)

    def _sentence(self, frame_size: int) -> str:
        if frame_size + self._headroom > self._size:
            return f"a frame of {frame_size} bytes does not fit into a segment of {self._size}"
        if self._refusal is None:
            return f"no room for {frame_size} bytes until the next segment is allocated"
        reason = self._refusal.strerror or errno.errorcode.get(self._refusal.errno or 0, "refused")
        return f"no room for {frame_size} bytes; allocating the next segment: {reason}"


def _prepare(device: Device, size: int) -> Job:
    try:
        device.create(names.PREPARED)
        yield
        device.allocate(names.PREPARED, size)
        yield
        device.sync(names.PREPARED)
    except OSError:
        # A part of it may be allocated, which others need more.
        with contextlib.suppress(OSError):
            device.remove(names.PREPARED)
        raise

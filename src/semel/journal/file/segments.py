"""The segments of the journal: which file holds a position, and whether there is room for a frame.

Room means blocks that are already allocated: what is left of the open segment, and another one
preallocated in the background. So a full disk is met before anything has changed. The preallocated
one is smaller than others if the disk has no more, and larger if a frame, with what must be left
behind it, takes more than a segment has.
"""

import asyncio
import contextlib
import errno
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

from semel.errors import JournalFull
from semel.journal import names
from semel.journal.file.device import Device, Job, JobHandle
from semel.journal.file.settings import JournalSettings
from semel.journal.runs import Run, gather

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a disk says that has no more room."""


class Segments:
    def __init__(
        self,
        device: Device,
        settings: JournalSettings,
        bases: Sequence[int],
        limit: int,
        preallocated_size: int,
    ) -> None:
        self.bases = array("q", bases)
        self.limit = limit
        """Where the open segment ends."""
        self.preallocated_size = preallocated_size
        """Bytes of the segment that is preallocated; 0 if there is none."""
        self.refused_count = 0
        self.on_warning: Callable[[str], None] = lambda warning: None
        self._device = device
        self._settings = settings
        self._retry_s = settings.allocation_retry_ms / 1000
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_failure: Callable[[Exception], None]
        self._preallocating: JobHandle | None = None
        self._when_preallocated: list[Callable[[], None]] = []
        self._refusal: OSError | None = None
        """What the disk said when it was last asked for more than it had."""
        self._retry_at_s = 0.0
        self._missed_size: int | None = None
        """Bytes that found no room; None while writes are taken."""

    def start(
        self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[Exception], None]
    ) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self.preallocate()

    @property
    def base(self) -> int:
        """Where the open segment begins."""
        return self.bases[-1]

    @property
    def is_short_of_room(self) -> bool:
        """The disk had no whole segment when it was last asked, or a frame found no room."""
        return self._refusal is not None or self._missed_size is not None

    def release(self, count: int) -> None:
        """The first segments are given up."""
        del self.bases[:count]

    def locate(self, position: int) -> tuple[str, int]:
        """The file that holds this position, and the offset in it."""
        if position < self.bases[0]:
            raise FileNotFoundError(errno.ENOENT, f"byte {position} was given up")
        base = self.bases[bisect_right(self.bases, position) - 1]
        return names.segment(base), position - base

    def runs(self, extents: list[tuple[int, int]]) -> list[Run]:
        """Extents, given by rising position and by size, in as few reads as is wise."""
        return gather(extents, self._end_behind)

    def _end_behind(self, position: int) -> int:
        """Where the segment ends that holds this position."""
        following = bisect_right(self.bases, position)
        return self.bases[following] if following < len(self.bases) else self.limit

    def room(self, end: int, kept_size: int) -> int:
        """Bytes of frames that fit and leave room for frames of `kept_size` bytes."""
        left = self.limit - end
        if self.preallocated_size >= kept_size:
            return max(left, self.preallocated_size - kept_size)
        return max(0, left - kept_size)

    def require(self, end: int, frame_size: int, kept_size: int) -> None:
        """Raises JournalFull unless the frame fits and leaves room for frames of `kept_size`."""
        wanted = frame_size + kept_size
        self.preallocate(wanted)
        # While the disk has not refused, it is only slower than we are: waiting beats refusing.
        while self.room(end, kept_size) < frame_size:
            if self._preallocating is None or self._refusal is not None:
                self._refuse(frame_size, wanted)
            self._preallocating.finish()
            self.preallocate(wanted)

    def roll(self, boundary: int) -> str:
        """The preallocated segment becomes the open one."""
        self.finish_preallocating()
        assert self.preallocated_size
        name = names.segment(boundary)
        self._device.rename(names.PREALLOCATED, name)
        self.bases.append(boundary)
        self.limit = boundary + self.preallocated_size
        self.preallocated_size = 0
        self.preallocate()
        return name

    def drop_ballast(self) -> None:
        """Leave its room to what gives back more. Another is allocated with a later segment."""
        # A disk that refuses even this has other faults, of which writes will tell.
        with contextlib.suppress(OSError):
            self._device.remove(names.BALLAST)

    def finish_preallocating(self) -> None:
        """Waits for the segment being preallocated."""
        if self._preallocating is not None:
            self._preallocating.finish()

    def when_preallocated(self, callback: Callable[[], None]) -> None:
        """At once, or when the segment being preallocated is there or has failed."""
        if self._preallocating is None:
            callback()
        else:
            self._when_preallocated.append(callback)

    def preallocate(self, size: int = 0) -> None:
        """See to it that a whole segment is preallocated, and one of `size` bytes at least.

        Does nothing if a full disk was asked for it just before.
        """
        if self._loop is None or self._preallocating is not None:
            return
        if self.preallocated_size >= max(size, self._settings.segment_bytes):
            return
        if self._refusal is not None and self._loop.time() < self._retry_at_s:
            return
        job = _preallocate(self._device, self._settings, size, is_new=not self.preallocated_size)
        self._preallocating = self._device.submit(job, self._on_preallocated)

    def _on_preallocated(self, error: Exception | None) -> None:
        self._preallocating = None
        waiting, self._when_preallocated = self._when_preallocated, []
        for callback in waiting:
            callback()
        if error is not None and not isinstance(error, OSError):
            self._on_failure(error)
            return
        self.preallocated_size = size_of(self._device, names.PREALLOCATED)
        if error is None:
            self._refusal = None
        else:
            assert self._loop is not None
            self._retry_at_s = self._loop.time() + self._retry_s
            is_new, self._refusal = self._refusal is None, error
            if is_new:
                self.on_warning(
                    f"the disk has no room for a whole segment of the journal: the next one has "
                    f"{self.preallocated_size} bytes ({_reason(error)})"
                )
        if self._missed_size is not None and self.preallocated_size >= self._missed_size:
            self._missed_size = None
            self.on_warning(
                f"writes are taken again: the next segment of the journal has "
                f"{self.preallocated_size} bytes"
            )

    def _refuse(self, frame_size: int, wanted: int) -> NoReturn:
        self.refused_count += 1
        if self._refusal is None:
            sentence = f"no room for {frame_size} bytes until the next segment is allocated"
        else:
            reason = _reason(self._refusal)
            sentence = f"no room for {frame_size} bytes; allocating the next segment: {reason}"
        if self._missed_size is None:
            self.on_warning(f"writes are refused until the disk has room: {sentence}")
        self._missed_size = min(wanted, self._missed_size or wanted)
        raise JournalFull(sentence)


def _preallocate(device: Device, settings: JournalSettings, needed: int, *, is_new: bool) -> Job:
    """Raises what the disk said to a whole segment, also if there is room for a piece of one."""
    if is_new:
        device.create(names.PREALLOCATED)
        yield
    try:
        refusal = allocate(device, names.PREALLOCATED, settings, needed)
        if device.size(names.PREALLOCATED):
            yield
            device.sync(names.PREALLOCATED)
            yield
            # Nobody could give its room back to us if its name were lost.
            device.sync_folder()
        else:
            device.remove(names.PREALLOCATED)
    except OSError:
        with contextlib.suppress(OSError):
            device.remove(names.PREALLOCATED)
        raise
    if refusal is not None:
        raise refusal
    yield
    _allocate_ballast(device, settings)


def _allocate_ballast(device: Device, settings: JournalSettings) -> None:
    """If there is none, and room for it is not scarce."""
    size = settings.ballast_bytes
    if size_of(device, names.BALLAST) >= size or device.free_bytes() < 2 * size:
        return
    try:
        device.allocate(names.BALLAST, size)
    except OSError:
        # Half of it would take room where it is short.
        with contextlib.suppress(OSError):
            device.remove(names.BALLAST)


def size_of(device: Device, name: str) -> int:
    try:
        return device.size(name)
    except FileNotFoundError:
        return 0


def _reason(error: OSError) -> str:
    return error.strerror or errno.errorcode.get(error.errno or 0, "refused")


def allocate(
    device: Device, name: str, settings: JournalSettings, needed: int = 0
) -> OSError | None:
    """Gives the file the room of a segment, of `needed` bytes at least, or what the disk has.

    None if all is well, else what the disk said when it was asked for more than it had. The file
    is never made shorter, and is as it was if there is no room.
    """
    present = device.size(name)
    refusal: OSError | None = None
    for size in _sizes(settings, needed):
        if size <= present:
            break
        # The last bytes are left to checkpoints, and to what else is on the disk.
        spare = settings.ballast_bytes if size < settings.segment_bytes else 0
        try:
            _grow(device, name, present, size, spare)
        except OSError as error:
            refusal = refusal or error
            if error.errno not in FULL:
                break
        else:
            break
    return refusal


def _grow(device: Device, name: str, present: int, size: int, spare: int) -> None:
    # Asked for before it is taken: what is found too small is meanwhile missing elsewhere.
    if device.free_bytes() < size - present + spare:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
    try:
        device.allocate(name, size)
    except OSError:
        device.truncate(name, present)
        raise


def _sizes(settings: JournalSettings, needed: int) -> Iterator[int]:
    """How long a segment may be, the best first.

    Whole segments, so that a need which grows is not met byte by byte; what is needed; and on a
    full disk a half, a quarter, and so on.
    """
    size = settings.segment_bytes
    if needed > size:
        yield -(-needed // size) * size
        yield needed
    while size >= settings.smallest_segment_bytes:
        yield size
        size //= 2

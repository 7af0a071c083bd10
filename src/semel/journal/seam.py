"""The journal: one totally ordered sequence of frames, which is all that a crash leaves of a lane.

`append` fixes the order at once. A crash loses a suffix of what was not yet durable, and nothing
else. A journal is opened by the driver that keeps it, each in its own way; what the lane then sees
is the same (docs/decisions/0014-the-journals-seam.md).
"""

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, overload

from semel.errors import JournalFailed
from semel.journal.index import BatchIndex
from semel.types import Buffer, Position


class JournalAbandoned(JournalFailed):
    """Its lane has stepped down: what was appended and not durable by then may count or not."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a driver can take, and what it wants left where room is short."""

    payload_bytes_max: int
    """The largest payload of a frame."""
    setting: str
    """By which its user could have larger ones."""
    headroom: int = 0
    """Bytes kept for ends and opens where room can run out."""
    opening_bytes: int = 0
    """The part of the headroom that only opening the journal may use."""
    backlog_bytes: int | None = None
    """Who would append while more is not durable had better wait; None: however much it is."""


class Sealed(NamedTuple):
    """A stretch of the journal that will not change, with its index stored."""

    base: int
    end: int


class SealedStretches(Sequence[Sealed]):
    """One behind the other, without a value for each: there may be very many of them."""

    def __init__(self, bases: "array[int]") -> None:
        """The last one ends the stretch before it."""
        self._bases = bases

    def __len__(self) -> int:
        return max(0, len(self._bases) - 1)

    @overload
    def __getitem__(self, at: int) -> Sealed: ...
    @overload
    def __getitem__(self, at: slice) -> "SealedStretches": ...
    def __getitem__(self, at: "int | slice") -> "Sealed | SealedStretches":
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            assert step == 1, "neighbours"
            return SealedStretches(self._bases[start : stop + 1] if start < stop else array("q"))
        number = range(len(self))[at]
        return Sealed(self._bases[number], self._bases[number + 1])

    def behind(self, position: int) -> "SealedStretches":
        """Those that begin there or later."""
        return self[bisect_left(self._bases, position) :]


class Journal(Protocol):
    end: Position
    """Behind the last frame: what to wait for, once something is appended."""
    index: BatchIndex
    """Where batches lie. Whoever appends or replays a frame adds its batches."""
    limits: Limits
    frames_appended: int
    bytes_appended: int

    # What opening has found.

    may_miss_acknowledged: bool
    """Bytes that were written, and acknowledged as such, may be missing.

    It stays so over restarts until the first frame behind the doubt is durable, which must hold
    what the lane concludes from it.
    """
    epoch: int | None
    """Of the fence by which the journal was taken; it rises with every one. None where nobody else
    can take it: the lane's term is the epoch then.

    Whoever leads writes it into batches, as the leader epoch. The term becomes the epoch if
    acknowledged bytes may be missing, and stays what it was if not.
    """
    checkpoint: bytes | None
    """The lane's state at the newest checkpoint, until the start."""

    def replay(self) -> Iterator[tuple[Position, memoryview]]:
        """The payload of each frame behind the checkpoint, and where its first byte stands.

        Its batches must be added to `index` before the next is asked for. Once, before `start`.
        """

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_durable: Callable[[Position], None],
        snapshot: Callable[[], Iterator[bytes]],
        on_failure: Callable[[BaseException], None],
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        """From here on frames may be appended. Warnings are logged unless someone takes them.

        `on_durable` is called before those who wait for that position. `snapshot` gives the lane's
        state as of all frames appended so far, piece by piece, whatever is appended before the last
        is taken; the next is asked for when that is over. After `on_failure`, called once, nothing
        is called back any more: who still waits, waits in vain.
        """

    # Running.

    @property
    def written(self) -> Position: ...

    @property
    def durable(self) -> Position: ...

    @property
    def failure(self) -> JournalFailed | None: ...

    def reserve(self, size: int, kept_size: int) -> None:
        """Raises JournalFull unless a payload of this size can be appended now.

        Frames of `kept_size` bytes must fit behind it. Before the frame is applied: a checkpoint
        may be begun here, which holds nothing of it.
        """

    def room(self, kept_size: int) -> int:
        """Bytes of payload that surely fit now and leave room for frames of `kept_size` bytes."""

    def append(self, parts: list[Buffer], size: int) -> Position:
        """Fixes the order; returns where the payload begins."""

    def when_written(self, position: Position, callback: Callable[[], None]) -> None:
        """Once a killed process can no longer lose it; at once if that is so already.

        Where a kill takes all that is not durable, this is at once, and every kill leaves doubt.
        """

    def write(self) -> None:
        """Let nobody who waits for that wait for the rest of this pass of the loop."""

    def when_durable(self, position: Position, callback: Callable[[], None]) -> None:
        """Once a power loss can no longer take it; at once if that is so already."""

    def barrier(self, callback: Callable[[], None]) -> None:
        """Once all that was appended is durable, and nobody else has the journal.

        Whoever says something of the state that no frame of its own makes true waits for this. It
        may take a moment where others can take the journal at any time.
        """

    @property
    def held_from(self) -> Position:
        """What was appended from here on is in memory: to read it nothing is waited for."""

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        """As `read_all`, if nothing of it has to be waited for; else None."""

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """The bytes at these positions, which rise, in these sizes; each lies within a frame."""

    async def read(self, position: Position, size: int) -> Buffer:
        """Bytes of one frame that is written."""

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        """What a lookup in `index` misses. Raises OSError."""

    async def checkpoint_now(self) -> None:
        """The next start replays only what is appended after this. A failure is only a warning."""

    @property
    def is_short_of_room(self) -> bool:
        """Something was refused, or the next that needs much room may be."""

    def make_room(self) -> None:
        """If it is short: let there be some for checkpoints and volumes, by which more comes back.

        What is appended does not get it.
        """

    def look_for_room(self) -> None:
        """It may have come back where it was short, and nobody may be writing."""

    def roll(self, kept_size: int) -> bool:
        """Let what is appended next begin a stretch of its own: with the next checkpoint all before
        is sealed. False if there is nothing to be sealed, or not room enough to be wasteful of it:
        frames of `kept_size` bytes must fit."""

    def sealed(self) -> SealedStretches:
        """What can be settled, the oldest first: it is durable, and lies before a checkpoint."""

    def release_before(self, position: Position) -> bool:
        """What lies before is never read again, and may be forgotten where no checkpoint needs it.

        False if one does: when others are there, it can be said again. It happens in the
        background; a failure is only a warning.
        """

    # Ending.

    def abandon(self) -> None:
        """Steps down: nothing is written any more, and `on_failure` hears JournalAbandoned.

        It leaves no doubt behind, unless what is under way yet fails, or a kill would leave some.
        `close` then lets others have the journal.
        """

    def fail(self, error: Exception, deed: str) -> None:
        """Nothing is written any more, as after a failed write."""

    async def close(self) -> None:
        """Makes all of it durable, leaves a checkpoint and lets others have the journal.

        After a failure or `abandon` it does the last alone, when nothing is under way.
        """


class SharedJournal(Journal, Protocol):
    """One that others can take at any time."""

    async def hand_over(self, successor: int) -> None:
        """Nothing is appended from here on. What was is made durable, who waits for a barrier is
        told, and the next leader is named, who then knows that nothing is missing.

        Returns when that is done, or when the journal has failed. `close` comes behind it.
        """

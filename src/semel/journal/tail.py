"""The newest frames, held as they were appended, so that a reader at the end needs no file.

A frame is held by the parts it was appended in. They lie in the requests that brought them, so
what counts against the bound is the memory that stays alive, not the bytes that can be read.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from semel.types import Buffer

FRAME_OVERHEAD: Final = 256
"""Bytes. What holding a frame takes beside its parts, which may be much smaller."""

FRAMES_DROPPED_AT_ONCE: Final = 64
"""Removing the first of a list moves all others, so that they go in lots."""

_DROPPED: Final[list[Buffer]] = []


class Tail:
    __slots__ = (
        "_bytes_held",
        "_bytes_max",
        "_first",
        "_frames",
        "_held",
        "_on_dropped",
        "_owner",
        "_starts",
    )

    def __init__(self, bytes_max: int, on_dropped: Callable[[int], None]) -> None:
        """`on_dropped` is told where the last frame of each lot begins that is dropped."""
        self._on_dropped = on_dropped
        self._bytes_max = bytes_max
        self._bytes_held = 0
        self._starts: list[int] = []
        self._frames: list[list[Buffer]] = []
        self._held: list[int] = []
        """Bytes of memory that each frame alone keeps alive."""
        self._first = 0
        """Those before it are dropped, and go with their lot."""
        self._owner: object = None
        """The request that the last part lies in: its neighbours are often of the same."""

    def add(self, start: int, parts: list[Buffer]) -> None:
        """The payload of a frame, whose first byte stands at `start` of the journal."""
        held = FRAME_OVERHEAD
        for part in parts:
            if type(part) is memoryview:
                owner = part.obj
                if owner is not self._owner:
                    self._owner = owner
                    held += len(owner)  # type: ignore[arg-type]  # Requests are bytes.
            else:
                held += len(part)
        self._starts.append(start)
        self._frames.append(parts)
        self._held.append(held)
        self._bytes_held += held
        while self._bytes_held > self._bytes_max:
            self._drop_first()

    @property
    def start(self) -> int | None:
        """Of the first frame that is held."""
        return self._starts[self._first] if self._first < len(self._starts) else None

    def read(self, position: int, size: int) -> bytes | None:
        """Bytes that lie within one frame; None if that frame is not held."""
        number = bisect_right(self._starts, position, self._first) - 1
        if number < self._first:
            return None
        skip = position - self._starts[number]
        found: list[Buffer] = []
        for part in self._frames[number]:
            length = len(part)
            if skip >= length:
                skip -= length
                continue
            end = skip + size
            if end <= length:
                found.append(part[skip:end] if skip or end < length else part)
                return b"".join(found)
            found.append(part[skip:] if skip else part)
            size = end - length
            skip = 0
        raise AssertionError(f"the frame that holds {position} ends {size} bytes too early")

    def _drop_first(self) -> None:
        self._bytes_held -= self._held[self._first]
        self._frames[self._first] = _DROPPED
        self._first += 1
        if self._first >= FRAMES_DROPPED_AT_ONCE and 2 * self._first >= len(self._starts):
            self._on_dropped(self._starts[self._first - 1])
            for column in (self._starts, self._frames, self._held):
                del column[: self._first]
            self._first = 0

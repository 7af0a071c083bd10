"""When a read may ask the disk: syncs go first, since clients wait for them.

On many disks a sync waits until the reads before it are done, those that the kernel makes ahead of
its readers as well. So while the journal is synced again and again, old data is read in small
pieces, one at a time, and a piece begins when no sync is under way. No reader starves: when it has
its turn it waits for one sync at most. If nothing was synced for a while, all read as fast as they
can.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

SMALL_SIZE: Final = 128 * 1024
"""Bytes. A disk that is worth a journal reads them in about the time that a sync takes."""

LARGE_SIZE: Final = 1024 * 1024
"""Bytes of a piece if no sync is to be expected; one may yet come."""

CALM_AFTER: Final = 512
"""Pieces without a sync until none is expected: 64 MiB at most, a tenth of a second or more."""


class Piece(NamedTuple):
    size: int
    is_alone: bool
    """No other is read meanwhile, and nothing may be read ahead."""


class ReadGate:
    def __init__(self, changed: threading.Condition | None = None) -> None:
        self._changed = changed or threading.Condition()
        self._syncs_begun = 0
        """Counted by the loop's thread alone, which need not wait for the lock."""
        self._syncs_ended = 0
        self._turns: deque[object] = deque()
        """Of those who read alone; the first reads, or waits for a sync."""
        self._pieces_since_sync = CALM_AFTER
        self._last_sync_seen = 0

    def sync_begins(self) -> None:
        """One at a time."""
        self._syncs_begun += 1

    def sync_ends(self) -> None:
        with self._changed:
            self._syncs_ended += 1
            self._changed.notify_all()

    @contextmanager
    def piece(self, size_max: int) -> Iterator[Piece]:
        """What to read next of this many bytes. Blocking; any thread but the loop's."""
        turn = self._take_turn()
        if turn is None:
            yield Piece(min(size_max, LARGE_SIZE), is_alone=False)
            return
        try:
            yield Piece(min(size_max, SMALL_SIZE), is_alone=True)
        finally:
            with self._changed:
                self._turns.popleft()
                self._changed.notify_all()

    @property
    def is_calm(self) -> bool:
        """Nothing is being synced, nor was of late. Any thread may ask."""
        return (
            self._syncs_begun == self._syncs_ended == self._last_sync_seen
            and self._pieces_since_sync >= CALM_AFTER
        )

    def _take_turn(self) -> object | None:
        """Waits for the turn to read alone; None if that is not needed."""
        with self._changed:
            if self.is_calm:
                return None
            turn = object()
            self._turns.append(turn)
            while self._turns[0] is not turn:
                self._changed.wait()
            ended = self._syncs_ended
            # Where one sync follows the other, nobody may ever see the moment between them.
            while self._syncs_begun > self._syncs_ended == ended:
                self._changed.wait()
            if self._last_sync_seen != self._syncs_begun:
                self._last_sync_seen = self._syncs_begun
                self._pieces_since_sync = 0
            self._pieces_since_sync += 1
            return turn

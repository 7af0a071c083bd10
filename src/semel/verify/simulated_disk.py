"""A disk with moods: now and then its syncs take long, so that more is at stake in a crash."""

from collections.abc import Callable, Sequence
from random import Random

from semel.journal import names
from semel.journal.device import Done
from semel.journal.memory import MemoryDevice

SYNC_DELAYS_S = (0.0, 0.0, 0.002, 0.02, 0.2)
MOOD_COUNT = 10
"""Syncs until the mood may change."""


class SimulatedDisk(MemoryDevice):
    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self._moods = Random(rng.random())
        self._delay_s = 0.0

        self.on_next_sync: Callable[[], None] | None = None
        """Called once, instead of a sync that will never be heard of again."""
        self.on_next_checkpoint: Callable[[], None] | None = None
        """Called once, when a checkpoint has got its name."""

    def rename(self, name: str, successor: str) -> None:
        super().rename(name, successor)
        if successor.endswith(names.CHECKPOINT) and self.on_next_checkpoint is not None:
            on_next_checkpoint, self.on_next_checkpoint = self.on_next_checkpoint, None
            on_next_checkpoint()

    def submit_sync(self, files: Sequence[str], folder: bool, on_done: Done) -> None:
        if self.on_next_sync is not None:
            on_next_sync, self.on_next_sync = self.on_next_sync, None
            on_next_sync()
            return
        if self._moods.randrange(MOOD_COUNT) == 0:
            self._delay_s = self._moods.choice(SYNC_DELAYS_S)
        if self._delay_s == 0.0:
            super().submit_sync(files, folder, on_done)
            return
        assert self._loop is not None
        self._loop.call_later(self._delay_s, super().submit_sync, files, folder, on_done)

"""A power loss under a real broker: its disk goes back to what was synced, and is another one.

A killed process loses nothing, since the kernel has its bytes. So the folder is copied at a moment
when all of it was synced, and put in place of the real one after the kill: whatever was written in
between is lost. A folder that is not the one noted in the journal is what makes the broker
uncertain, as a new boot id does.
"""

import shutil
from pathlib import Path

from semel.testing import Broker

SLOW_FLUSH = {"log.flush.interval.ms": 60_000}
"""Settings under which nothing is synced unless someone waits for it."""


class Disk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._copies = 0
        self._synced: Path | None = None

    def remember(self) -> None:
        """All that was written so far is synced: the next power loss leaves at least this."""
        if self._synced is not None:
            shutil.rmtree(self._synced)
        self._synced = self._copy()

    def lose_power(self, broker: Broker, *, everything_unsynced: bool = True) -> None:
        """End the broker and start it on what is left; the port stays the same."""
        broker.kill()
        left = self._synced if everything_unsynced else None
        self._synced = None
        if left is None:
            left = self._copy()
        shutil.rmtree(self.folder)
        left.rename(self.folder)
        broker.start()

    def _copy(self) -> Path:
        self._copies += 1
        copy = self.folder.with_name(f"{self.folder.name}-copy-{self._copies}")
        shutil.copytree(self.folder, copy)
        return copy

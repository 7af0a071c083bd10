"""The volumes of the lanes that a node leads, and the folder in which it works for them.

The folder is never synced and holds nothing that must last: a node may lose it at any time.

    lock                    held by the process that uses it
    work-<lane>-<drawn>/    what a volume is made of, and the volume until it is stored
    cache/                  blocks of slots and volumes
"""

import asyncio
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from semel.errors import ConfigError
from semel.journal.file.disk import FileDevice
from semel.journal.seam import Journal
from semel.journal.slots import keys
from semel.journal.slots.journal import SlotJournal
from semel.lane.settling import Volumes
from semel.store.disk_cache import DiskCache, Folder
from semel.store.seam import Store
from semel.volumes.making import MakesApart
from semel.volumes.on_store import volumes_in
from semel.world import Randomness

CACHE: Final = "cache"


class LaneVolumes:
    def __init__(
        self,
        store: Store,
        folder: Path,
        randomness: Randomness,
        cache: DiskCache | None = None,
    ) -> None:
        self._store = store
        self._cache = cache
        self._folder = folder
        self._randomness = randomness

    def __call__(self, number: int, journal: Journal) -> Volumes:
        """Of a lane that was taken."""
        assert isinstance(journal, SlotJournal)
        assert journal.epoch is not None
        if self._cache is not None:
            journal.use_cache(self._cache.of_leader(journal.epoch, keys.reused(number)))
        prefix = f"work-{number:04x}"
        self._folder.mkdir(parents=True, exist_ok=True)
        # What was begun there is of no use to anybody. It may be large, and clients are waiting.
        old = list(self._folder.glob(f"{prefix}*"))
        asyncio.get_running_loop().run_in_executor(None, _remove, old)
        folder = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=self._folder))
        device = FileDevice(folder, synced=False)
        maker = MakesApart(str(folder), synced=False)
        return Volumes(*volumes_in(self._store, number, journal, self._randomness, device, maker))


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def work_folder(named: Path | None) -> Iterator[Path]:
    """The folder of --cache, for this process alone; a temporary one if none is named. Raises
    ConfigError, FolderInUse."""
    if named is None:
        with tempfile.TemporaryDirectory(prefix="semel-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    lock = FileDevice(named)
    try:
        lock.acquire()
    except OSError as error:
        raise ConfigError(f"--cache {named} cannot be used: {error}") from error
    try:
        yield named
    finally:
        lock.stop()


def disk_cache(folder: Path, bytes_max: int) -> DiskCache:
    """Raises ConfigError."""
    try:
        return DiskCache(Folder(folder / CACHE), bytes_max)
    except OSError as error:
        raise ConfigError(f"{folder / CACHE} cannot be used as a cache: {error}") from error

"""Blocks of objects in a folder of one node: never synced, those used last, as many as may be.

Rule 34. A file of the cache is believed only if it says of itself which block of which object it is
and its checksum is right: whatever a crash has left of it, it is a miss and never a wrong answer.
What lies under a key that is used again by others, a slot above all, is kept for one leader alone:
its file is named by the epoch and by how often a lane was taken here, as another cluster, or one
that was restored, has the same epochs. Whoever leads next begins without it.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from semel.records.checksum import crc32c
from semel.store.blocks import BLOCK_SIZE
from semel.types import Buffer

ENDING: Final = ".block"
SEPARATOR: Final = "+"
"""Instead of that of folders; no key has it."""
CHECKSUM_SIZE: Final = 4
OVERHEAD_SIZE: Final = 4096
"""What a file takes besides its bytes, at most."""
UNWRITTEN_BYTES_MAX: Final = 32 * 2**20
"""Behind so many that wait to be written nothing is kept: memory is bounded, and a cache need not
have all."""

DRAWN: Final = "drawn"
"""Begins the names of what lies under a key that was drawn for it: it is true whoever leads."""
REMOVED_AT_ONCE: Final = 64


class Kept(NamedTuple):
    """A file that an earlier process has left."""

    name: str
    size: int


class Files(Protocol):
    """Where the blocks are kept. A crash may leave anything of them."""

    def found(self) -> list[Kept]:
        """Those used last at the end. Blocking. Raises OSError."""

    async def read(self, name: str) -> Buffer | None:
        """None if it is not what was written there."""

    def begin_write(self, names: Sequence[str], parts: Sequence[Buffer]) -> "asyncio.Future[bool]":
        """A block to each. False if there is no room, or the folder is gone: it is only a cache."""

    def remove(self, names: Sequence[str]) -> None:
        """Whoever reads one has it open."""


class Folder:
    """Of a disk, which is waited for beside the loop."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def found(self) -> list[Kept]:
        self._path.mkdir(parents=True, exist_ok=True)
        found = []
        for entry in os.scandir(self._path):
            if entry.name.endswith(ENDING):
                status = entry.stat()
                found.append((status.st_mtime_ns, entry.name, status.st_size))
        return [Kept(name, size) for _, name, size in sorted(found)]

    async def read(self, name: str) -> Buffer | None:
        return await asyncio.to_thread(_read, self._path / name, name)

    def begin_write(self, names: Sequence[str], parts: Sequence[Buffer]) -> "asyncio.Future[bool]":
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(None, _write, self._path, names, parts)

    def remove(self, names: Sequence[str]) -> None:
        """Of very many it is done beside the loop: no file of the same name is made meanwhile, as
        they go when a lane is taken."""
        if len(names) <= REMOVED_AT_ONCE:
            _unlink(self._path, names)
        else:
            asyncio.get_running_loop().run_in_executor(None, _unlink, self._path, names)


class DiskCache:
    def __init__(self, files: Files, bytes_max: int) -> None:
        """Takes what an earlier process has left there. Blocking. Raises OSError."""
        self.hits = 0
        self.misses = 0
        self.bytes_held = 0
        self._files = files
        self._bytes_max = bytes_max
        self._sizes: OrderedDict[str, int] = OrderedDict()
        """By file, the one used last at the end."""
        self._unwritten_bytes = 0
        self._writing: set[asyncio.Future[bool]] = set()
        self._takes = 0
        for name, size in files.found():
            takes = name.partition("-")[0]
            self._takes = max(self._takes, int(takes) if takes.isdecimal() else 0)
            self._add(name, size)

    def of_leader(self, epoch: int, folders: Iterable[str]) -> "LeaderCache":
        """For who has taken a lane: what others have left of these folders of the store goes."""
        starts = tuple(each.replace("/", SEPARATOR) for each in folders)
        gone = [name for name in self._sizes if name.partition(SEPARATOR)[2].startswith(starts)]
        self._drop(gone)
        self._takes += 1
        return LeaderCache(self, f"{self._takes}-{epoch}", tuple(folders))

    async def get(self, whose: str, key: str, number: int) -> Buffer | None:
        name = _name(whose, key, number)
        if name not in self._sizes:
            self.misses += 1
            return None
        self._sizes.move_to_end(name)
        found = await self._files.read(name)
        if found is None:
            self.misses += 1
            # Others may have dropped it meanwhile.
            self._drop([name] if name in self._sizes else [])
        else:
            self.hits += 1
        return found

    def put(self, whose: str, key: str, number: int, parts: Sequence[Buffer], size: int) -> None:
        """One block, or all from this one on: they are cut beside the loop."""
        if self._unwritten_bytes + size > UNWRITTEN_BYTES_MAX or size > self._bytes_max:
            return
        count = max(1, -(-size // BLOCK_SIZE))
        names = [_name(whose, key, number + behind) for behind in range(count)]
        if all(name in self._sizes for name in names):
            return
        self._unwritten_bytes += size
        writing = self._files.begin_write(names, parts)
        self._writing.add(writing)

        def written(done: "asyncio.Future[bool]") -> None:
            self._writing.discard(done)
            self._unwritten_bytes -= size
            if not done.cancelled() and done.exception() is None and done.result():
                for behind, name in enumerate(names):
                    its_size = min(BLOCK_SIZE, size - behind * BLOCK_SIZE)
                    self._add(name, CHECKSUM_SIZE + its_size)
            else:
                self._files.remove(names)

        writing.add_done_callback(written)

    def forget(self, whose: str, keys: Iterable[str]) -> None:
        for key in keys:
            number = 0
            while (name := _name(whose, key, number)) in self._sizes:
                self._drop([name])
                number += 1

    async def until_written(self) -> None:
        while self._writing:
            await asyncio.wait(self._writing)

    def _add(self, name: str, size: int) -> None:
        self.bytes_held += size + OVERHEAD_SIZE - self._sizes.get(name, 0)
        self._sizes[name] = size + OVERHEAD_SIZE
        self._sizes.move_to_end(name)
        gone: list[str] = []
        held = self.bytes_held
        for oldest, its_size in self._sizes.items():
            if held <= self._bytes_max:
                break
            gone.append(oldest)
            held -= its_size
        self._drop(gone)

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            self.bytes_held -= self._sizes.pop(name)
        self._files.remove(names)


class LeaderCache:
    """What the leader of one epoch sees of it."""

    def __init__(self, cache: DiskCache, whose: str, folders: tuple[str, ...]) -> None:
        self._cache = cache
        self._whose = whose
        self._folders = folders

    def _owner(self, key: str) -> str:
        return self._whose if key.startswith(self._folders) else DRAWN

    async def get(self, key: str, number: int) -> Buffer | None:
        return await self._cache.get(self._owner(key), key, number)

    def put(self, key: str, number: int, parts: Sequence[Buffer], size: int) -> None:
        self._cache.put(self._owner(key), key, number, parts, size)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._cache.forget(self._owner(key), [key])


def _name(whose: str, key: str, number: int) -> str:
    return f"{whose}{SEPARATOR}{key.replace('/', SEPARATOR)}{SEPARATOR}{number}{ENDING}"


def _checksum(name: str, block: Buffer) -> bytes:
    return crc32c(block, crc32c(name.encode())).to_bytes(CHECKSUM_SIZE, "big")


def _read(path: Path, name: str) -> Buffer | None:
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    return block_of(stored, name)


def block_of(file: Buffer, name: str) -> Buffer | None:
    """None if it is not what was written under this name."""
    stored = memoryview(file)
    block = stored[CHECKSUM_SIZE:]
    return block if block and bytes(stored[:CHECKSUM_SIZE]) == _checksum(name, block) else None


def _unlink(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)


def files_of(names: Sequence[str], parts: Sequence[Buffer]) -> Iterator[bytes]:
    """What each of them is to hold."""
    whole = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
    for number, name in enumerate(names):
        block = whole[number * BLOCK_SIZE : (number + 1) * BLOCK_SIZE]
        yield _checksum(name, block) + block


def _write(folder: Path, names: Sequence[str], parts: Sequence[Buffer]) -> bool:
    try:
        for name, file in zip(names, files_of(names, parts), strict=True):
            (folder / name).write_bytes(file)
    except OSError:
        return False
    return True

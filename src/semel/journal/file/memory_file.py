"""A file of the simulated disk: what the kernel shows, and what a power loss would leave of it."""

from random import Random
from typing import NamedTuple

PAGE_SIZES = (512, 4096)


class Write(NamedTuple):
    offset: int
    content: bytes


class Resize(NamedTuple):
    size: int


class MemoryFile:
    def __init__(self) -> None:
        self.content = bytearray()
        """As the kernel shows it."""
        self.disk = bytearray()
        """As it is without power."""
        self.unsynced: list[Write | Resize] = []

    def write(self, offset: int, content: bytes) -> None:
        _apply(self.content, Write(offset, content))
        self.unsynced.append(Write(offset, content))

    def resize(self, size: int) -> None:
        _apply(self.content, Resize(size))
        self.unsynced.append(Resize(size))

    def sync(self, count: int) -> None:
        """The first `count` changes reach the disk."""
        for change in self.unsynced[:count]:
            _apply(self.disk, change)
        del self.unsynced[:count]

    def fail_sync(self, count: int, rng: Random) -> None:
        """Some of the changes are dropped, though the kernel goes on showing them as if clean."""
        if rng.random() < 0.5:
            del self.unsynced[:count]

    def lose_power(self, rng: Random) -> None:
        self._persist(rng, rng.choice(("none", "all", "prefix", "pages")))
        self.unsynced = []
        self.content = bytearray(self.disk)

    def flip_bit(self, offset: int, bit: int) -> None:
        self.content[offset] ^= 1 << bit
        if offset < len(self.disk):
            self.disk[offset] ^= 1 << bit

    def _persist(self, rng: Random, mode: str) -> None:
        changes = self.unsynced
        if mode == "none":
            return
        if mode == "all":
            self.sync(len(changes))
        elif mode == "prefix":
            count = rng.randint(0, len(changes))
            torn = changes[count : count + 1]
            self.sync(count)
            if torn and isinstance(torn[0], Write):
                offset, content = torn[0]
                _apply(self.disk, Write(offset, content[: rng.randint(0, len(content))]))
        else:
            kept = rng.choice((0.1, 0.5, 0.9))
            page_size = rng.choice(PAGE_SIZES)
            for change in changes:
                if isinstance(change, Resize):
                    if rng.random() < kept:
                        _apply(self.disk, change)
                else:
                    self._persist_pages(rng, change, page_size, kept)

    def _persist_pages(self, rng: Random, change: Write, page_size: int, kept: float) -> None:
        """Each page that the write touches is as it was before, or after."""
        start, stop = change.offset, change.offset + len(change.content)
        for page in range(start // page_size * page_size, stop, page_size):
            first, last = max(page, start), min(page + page_size, stop)
            if rng.random() < kept:
                _apply(self.disk, Write(first, change.content[first - start : last - start]))


def _apply(content: bytearray, change: Write | Resize) -> None:
    if isinstance(change, Resize):
        if change.size < len(content):
            del content[change.size :]
        else:
            content.extend(bytes(change.size - len(content)))
        return
    stop = change.offset + len(change.content)
    if stop > len(content):
        content.extend(bytes(stop - len(content)))
    content[change.offset : stop] = change.content

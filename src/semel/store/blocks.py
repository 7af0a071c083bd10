"""Ranges of objects, read by the block: what was read is held, and many who miss a block ask once.

An object never changes while somebody may read it, so that a block is true for as long as it is
held. What is asked for next mostly lies behind, so that whole blocks are read.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol

from semel.errors import StorageAway
from semel.store.seam import StoreAway, StoreError, StoreRefused
from semel.types import Buffer

BLOCK_SIZE: Final = 1 << 20
"""Bytes that are read at once."""

GETS_AT_ONCE: Final = 8
"""Reads of old data that are under way. What they bring is held until its reader has taken it, and
whoever writes needs the store as well."""

GetRange = Callable[[str, int, int], Awaitable[Buffer | None]]
"""Key, first byte and size; None if there is no such object, less where it ends. Raises
StoreError."""


class BlockCache(Protocol):
    """Blocks that outlive the memory of a process, as far as there is room. It may forget anything
    at any time, and never gives what was not put."""

    async def get(self, key: str, number: int) -> Buffer | None: ...

    def put(self, key: str, number: int, parts: Sequence[Buffer], size: int) -> None:
        """From this block of an object on, which is known to be there: so many bytes, in parts
        that do not change. Nobody waits for it."""

    def forget(self, keys: Iterable[str]) -> None:
        """These objects are needed no more."""


class NoCache:
    async def get(self, key: str, number: int) -> Buffer | None:
        return None

    def put(self, key: str, number: int, parts: Sequence[Buffer], size: int) -> None:
        pass

    def forget(self, keys: Iterable[str]) -> None:
        pass


NO_CACHE: Final = NoCache()


class Blocks:
    def __init__(self, get_range: GetRange, bytes_max: int, cache: BlockCache = NO_CACHE) -> None:
        self.gets = 0
        self.hits = 0
        """Reads that needed none."""
        self._get_range = get_range
        self._bytes_max = bytes_max
        self.cache = cache
        self._bytes_held = 0
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        """By object and number."""
        self._under_way: dict[tuple[str, int, int], asyncio.Event] = {}
        """Set when these blocks were read, or could not be."""
        self._gate = asyncio.Semaphore(GETS_AT_ONCE)

    def read_now(self, key: str, start: int, size: int) -> bytes | None:
        """As `read`, if all of it is held."""
        first, last = _numbers(start, size)
        parts: list[bytes] = []
        for number in range(first, last + 1):
            block = self._blocks.get((key, number))
            if block is None:
                return None
            self._blocks.move_to_end((key, number))
            parts.append(block)
        self.hits += 1
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        skip = start - first * BLOCK_SIZE
        return whole[skip : skip + size]

    async def read(self, key: str, start: int, size: int) -> Buffer:
        """Raises OSError: FileNotFoundError if there is no such object."""
        first, last = _numbers(start, size)
        wanted = (key, first, last)
        while True:
            held = self.read_now(key, start, size)
            if held is not None:
                if len(held) != size:
                    raise _short(key, start + len(held))
                return held
            others = self._under_way.get(wanted)
            if others is not None:
                await others.wait()
                continue
            is_over = self._under_way[wanted] = asyncio.Event()
            try:
                async with self._gate:
                    found = await self._load(key, first, last)
            finally:
                del self._under_way[wanted]
                is_over.set()
            skip = start - first * BLOCK_SIZE
            if len(found) < skip + size:
                raise _short(key, first * BLOCK_SIZE + len(found))
            return memoryview(found)[skip : skip + size]

    async def read_past(self, key: str, start: int, size: int) -> Buffer:
        """As `read`, for who reads all of it once: nothing that others need is dropped for it."""
        held = self.read_now(key, start, size)
        if held is not None and len(held) == size:
            return held
        first, last = _numbers(start, size)
        cached = [await self.cache.get(key, number) for number in range(first, last + 1)]
        if None not in cached:
            whole = b"".join(part for part in cached if part is not None)
            skip = start - first * BLOCK_SIZE
            if len(whole) >= skip + size:
                return memoryview(whole)[skip : skip + size]
        async with self._gate:
            found = await self._get(key, start, size)
        if len(found) < size:
            raise _short(key, start + len(found))
        return found

    def put(self, key: str, content: Sequence[Buffer]) -> None:
        """All of an object that is known to be there, as its creator has it."""
        self.cache.put(key, 0, content, sum(map(len, content)))

    def forget(self, keys: Sequence[str]) -> None:
        """They are needed no more. What is held of them in memory makes room by itself."""
        self.cache.forget(keys)

    async def _load(self, key: str, first: int, last: int) -> bytes:
        """These blocks, as many as there are."""
        cached: list[bytes] = []
        for number in range(first, last + 1):
            block = await self.cache.get(key, number)
            if block is None:
                break
            cached.append(bytes(block))
            if len(block) < BLOCK_SIZE:
                break
        if len(cached) == last + 1 - first or (cached and len(cached[-1]) < BLOCK_SIZE):
            for number, block in enumerate(cached, first):
                self._keep((key, number), block)
            return b"".join(cached)
        begin = first * BLOCK_SIZE
        found = bytes(await self._get(key, begin, (last + 1 - first) * BLOCK_SIZE))
        for number in range(first, last + 1):
            at = (number - first) * BLOCK_SIZE
            block = found[at : at + BLOCK_SIZE]
            if block:
                self._keep((key, number), block)
                self.cache.put(key, number, [block], len(block))
        return found

    async def _get(self, key: str, start: int, size: int) -> Buffer:
        self.gets += 1
        try:
            found = await self._get_range(key, start, size)
        except (StoreAway, StoreRefused) as error:
            raise StorageAway(f"{key} cannot be read: {error}") from error
        except StoreError as error:
            raise OSError(f"{key} cannot be read: {error}") from error
        if found is None:
            raise FileNotFoundError(f"{key} was given up")
        return found

    def _keep(self, name: tuple[str, int], block: bytes) -> None:
        if name not in self._blocks:
            self._bytes_held += len(block)
        self._blocks[name] = block
        while self._bytes_held > self._bytes_max and len(self._blocks) > 1:
            _, dropped = self._blocks.popitem(last=False)
            self._bytes_held -= len(dropped)


def _numbers(start: int, size: int) -> tuple[int, int]:
    """Of the first block and of the last."""
    return start // BLOCK_SIZE, (start + size - 1) // BLOCK_SIZE


def _short(key: str, end: int) -> OSError:
    return OSError(f"{key} ends at byte {end}")

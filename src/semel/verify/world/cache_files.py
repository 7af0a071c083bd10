"""The files of a node's cache, in memory: they outlive its process, and it leaves what it will.

What is under way when the process dies is there, in part or not at all; and a bit may flip of what
was written last, which was never synced.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextvars import Context
from random import Random
from typing import Final

from semel.store.disk_cache import Kept, block_of, files_of
from semel.types import Buffer

WRITE_S_MAX: Final = 0.05
UNSYNCED_COUNT: Final = 20
FLIP_SHARE: Final = 0.5


class CacheFiles:
    def __init__(self, seed: str) -> None:
        self._rng = Random(seed)
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._under_way: OrderedDict[str, bytes] = OrderedDict()

    def found(self) -> list[Kept]:
        return [Kept(name, len(file)) for name, file in self._files.items()]

    async def read(self, name: str) -> Buffer | None:
        await asyncio.sleep(0)
        file = self._files.get(name)
        return None if file is None else block_of(file, name)

    def begin_write(self, names: Sequence[str], parts: Sequence[Buffer]) -> "asyncio.Future[bool]":
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        self._under_way.update(zip(names, files_of(names, parts), strict=True))

        def write() -> None:
            for name in names:
                if name in self._under_way:
                    self._files[name] = self._under_way.pop(name)
            if not done.done():
                done.set_result(True)

        # It is no part of the process which has asked for it.
        loop.call_later(self._rng.uniform(0, WRITE_S_MAX), write, context=Context())
        return done

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self._files.pop(name, None)

    def crash(self) -> None:
        """The process has died, and perhaps its machine with it."""
        for name, file in self._under_way.items():
            left = self._rng.choice((0, self._rng.randrange(len(file)), len(file)))
            if left:
                self._files[name] = file[:left]
        self._under_way.clear()
        if self._files and self._rng.random() < FLIP_SHARE:
            for name in list(self._unsynced()):
                flipped = bytearray(self._files[name])
                flipped[self._rng.randrange(len(flipped))] ^= 1 << self._rng.randrange(8)
                self._files[name] = bytes(flipped)

    def _unsynced(self) -> Iterator[str]:
        for name in list(self._files)[-UNSYNCED_COUNT:]:
            if self._rng.random() < FLIP_SHARE:
                yield name

"""Volumes in an object store: each under a name that was drawn for it, which a frame tells.

    vol/<lane>/<epoch>-<drawn>        the batches
    vol/<lane>/<epoch>-<drawn>.idx    their index

Rule 35: what no frame names is removed by a leader alone, and only if it is of an older epoch. Of
one's own it is not known what lands yet, and what is of a newer epoch may be named by then. Who has
fenced the lane knows every frame of older epochs, so that what those have not named is never named.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Final

from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file.device import Device
from semel.journal.pages import RESTORE
from semel.journal.runs import Run, gather
from semel.store.blocks import Blocks
from semel.store.seam import PART_BYTES, ObjectExists, Store, StoreError
from semel.types import Buffer
from semel.world import Randomness

EPOCH_DIGITS: Final = 10
DRAWN_SIZE: Final = 12
INDEX: Final = ".idx"
ATTEMPTS: Final = 3
"""After which a volume is made anew, when its turn comes again."""


def folder(lane: int) -> str:
    return f"vol/{lane:04x}/"


def epoch_of(key: str) -> int | None:
    """In which a volume was made; None if this is none."""
    stem = key.rpartition("/")[2].removesuffix(INDEX)
    epoch, _, drawn = stem.partition("-")
    is_ours = len(epoch) == EPOCH_DIGITS and epoch.isdecimal() and len(drawn) == 2 * DRAWN_SIZE
    return int(epoch) if is_ours else None


class ObjectVolumes:
    is_far = True

    def __init__(
        self,
        store: Store,
        lane: int,
        epoch: int,
        randomness: Randomness,
        device: Device,
        blocks: Blocks,
    ) -> None:
        """They are made on `device`, which need not last, under the epoch of this leader."""
        self.epoch = epoch
        self.check: Callable[[], Awaitable[None]] = _let
        """Asked before anything is stored or removed: raises OSError if that is another's now."""
        self._store = store
        self._folder = folder(lane)
        self._randomness = randomness
        self._device = device
        self._blocks = blocks
        self._names: dict[int, str] = {}
        """By number, of those that are there as far as is known."""

    def open(self, named: Mapping[int, str]) -> dict[int, int]:
        """Nothing is asked of the store: what is missing is found by who reads it."""
        for number, name in named.items():
            if not name:
                raise CorruptJournal(
                    f"volume {number} lies in a folder and not in this store: {RESTORE}"
                )
        self._names = dict(named)
        return dict.fromkeys(named, 0)

    def has(self, number: int) -> bool:
        return number in self._names

    async def tidy(self) -> dict[int, int]:
        await self.check()
        try:
            found = await self._store.list(self._folder)
            named = set(self._names.values())
            strangers = [
                each.key
                for each in found
                if self._name(each.key) not in named and self._is_old(each.key)
            ]
            if strangers:
                await self._store.delete(strangers)
        except StoreError as error:
            raise OSError(f"volumes cannot be listed: {error}") from error
        sizes: dict[str, int] = {}
        for each in found:
            name = self._name(each.key)
            sizes[name] = sizes.get(name, 0) + each.size
        return {number: sizes.get(name, 0) for number, name in self._names.items()}

    def _is_old(self, key: str) -> bool:
        epoch = epoch_of(key)
        return epoch is not None and epoch < self.epoch

    def _name(self, key: str) -> str:
        return key.removeprefix(self._folder).removesuffix(INDEX)

    # What comes and goes.

    async def create(self, number: int, temporary: str) -> str:
        await self.check()
        for left in range(ATTEMPTS - 1, -1, -1):
            # After an error another name: what was sent under the old one may land at any time.
            drawn = self._randomness.token_bytes(DRAWN_SIZE).hex()
            name = f"{self.epoch:0{EPOCH_DIGITS}d}-{drawn}"
            try:
                await self._upload(names.volume_index(number) + temporary, name + INDEX)
                await self._upload(names.volume(number) + temporary, name)
            except StoreError as error:
                if not left:
                    raise OSError(f"a volume cannot be stored: {error}") from error
            else:
                self._names[number] = name
                break
        await self.discard(number, temporary)
        return name

    async def _upload(self, file: str, name: str) -> None:
        key = self._folder + name
        size = await asyncio.to_thread(self._device.size, file)
        if size <= PART_BYTES:
            stored = await asyncio.to_thread(self._device.read, file, 0, size)
            with contextlib.suppress(ObjectExists):
                # Ours: nobody else draws this name.
                await self._store.create(key, [stored])
        else:
            await self._store.create_large(key, self._pieces(file, size))

    async def _pieces(self, file: str, size: int) -> AsyncIterator[Buffer]:
        for start in range(0, size, PART_BYTES):
            length = min(PART_BYTES, size - start)
            piece = await asyncio.to_thread(self._device.read, file, start, length)
            if len(piece) != length:
                raise OSError(f"{file} ends at byte {start + len(piece)}")
            yield piece

    async def discard(self, number: int, temporary: str) -> None:
        for name in (names.volume(number), names.volume_index(number)):
            await asyncio.to_thread(self._device.remove, name + temporary)

    async def delete(self, numbers: Iterable[int]) -> None:
        gone = [number for number in numbers if number in self._names]
        keys = [self._folder + self._names[number] for number in gone]
        keys = [*(key + INDEX for key in keys), *keys]
        if not keys:
            return
        await self.check()
        try:
            await self._store.delete(keys)
        except StoreError as error:
            raise OSError(f"{len(gone)} volumes are not deleted: {error}") from error
        self._blocks.forget(keys)
        for number in gone:
            del self._names[number]

    # Reading.

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        found: list[memoryview] = []
        for run in _runs(extents):
            stored = self._blocks.read_now(*self._locate(run.position), run.size)
            if stored is None or len(stored) != run.size:
                return None
            found += run.cut(stored)
        return found

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        found: list[memoryview] = []
        for run in _runs(extents):
            found += run.cut(await self._blocks.read(*self._locate(run.position), run.size))
        return found

    async def read_past(self, position: int, size: int) -> list[Buffer]:
        """Whatever lies there, for who reads all of it once. Raises OSError."""
        return [await self._blocks.read_past(*self._locate(position), size)]

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        (number,) = names.positions([name], names.VOLUME_INDEX)
        return await self._blocks.read(self._key(number) + INDEX, offset, size)

    def _locate(self, position: int) -> tuple[str, int]:
        number = names.volume_at(position)
        return self._key(number), position - names.volume_base(number)

    def _key(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            raise FileNotFoundError(f"volume {number} was given up")
        return self._folder + name


async def _let() -> None:
    """Where a fence says who leads."""


def _runs(extents: list[tuple[int, int]]) -> list[Run]:
    return gather(extents, lambda position: names.volume_base(names.volume_at(position) + 1))

"""Volumes in a store for a journal in a folder: the folder has what is new, the store what is old.

Those that the folder had before stay in it until they are needed no more.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from semel.journal import names
from semel.journal.file.device import Device
from semel.journal.file.disk import FileDevice
from semel.journal.names import VOLUMES_FROM, volume_at
from semel.store.blocks import NO_CACHE, BlockCache, Blocks
from semel.store.seam import ObjectMissing, Store
from semel.types import Buffer
from semel.volumes.binding import check_claim
from semel.volumes.fetching import MakesOfFar
from semel.volumes.making import MakesApart
from semel.volumes.objects import ObjectVolumes
from semel.volumes.store import DeviceVolumes
from semel.world import Randomness

BLOCKS_BYTES_MAX = 32 * 2**20


class TieredVolumes:
    is_far = True

    def __init__(self, local: DeviceVolumes, remote: ObjectVolumes, device: Device) -> None:
        self._local = local
        self._remote = remote
        self._device = device

    def open(self, named: Mapping[int, str]) -> dict[int, int]:
        far = {number: name for number, name in named.items() if name}
        sizes = self._local.open({number: "" for number in named if number not in far})
        for number in far.keys() & sizes.keys():
            # It was brought here so that another is made of it.
            self._device.remove(names.volume_index(number))
            self._device.remove(names.volume(number))
        return sizes | self._remote.open(far)

    async def tidy(self) -> dict[int, int]:
        return await self._remote.tidy()

    async def create(self, number: int, temporary: str) -> str:
        return await self._remote.create(number, temporary)

    async def discard(self, number: int, temporary: str) -> None:
        await self._remote.discard(number, temporary)

    async def delete(self, numbers: Iterable[int]) -> None:
        gone = list(numbers)
        far = [number for number in gone if self._remote.has(number)]
        await self._local.delete(set(gone) - set(far))
        await self._remote.delete(far)

    def is_source_far(self, base: int) -> bool:
        return base >= VOLUMES_FROM and self._remote.has(volume_at(base))

    def _home(self, position: int) -> DeviceVolumes | ObjectVolumes:
        return self._remote if self.is_source_far(position) else self._local

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        found: list[memoryview] = []
        for home, some in groupby(extents, lambda extent: self._home(extent[0])):
            read = home.read_now(list(some))
            if read is None:
                return None
            found += read
        return found

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        found: list[memoryview] = []
        for home, some in groupby(extents, lambda extent: self._home(extent[0])):
            found += await home.read_all(list(some))
        return found

    async def read_past(self, position: int, size: int) -> Sequence[Buffer]:
        return await self._remote.read_past(position, size)

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        (number,) = names.positions([name], names.VOLUME_INDEX)
        home = self._remote if self._remote.has(number) else self._local
        return await home.read_index(name, offset, size)


class Tiering:
    """What a broker on a folder needs to keep its volumes in a store. It is `claimed` before any
    of it is used."""

    def __init__(
        self, store: Store, url: str, randomness: Randomness, cache: BlockCache = NO_CACHE
    ) -> None:
        self._store = store
        self._url = url
        self._randomness = randomness
        self._blocks = Blocks(self._get_range, BLOCKS_BYTES_MAX, cache)
        self._remotes: list[ObjectVolumes] = []

    def claimed(self, claim: int) -> None:
        for remote in self._remotes:
            remote.epoch = claim

    async def _get_range(self, key: str, start: int, size: int) -> Buffer | None:
        try:
            return await self._store.get_range(key, start, size)
        except ObjectMissing:
            return None

    def volumes(self, lane: int, device: FileDevice) -> tuple[TieredVolumes, MakesOfFar]:
        # The journal's own is busy on the loop; this one is used beside it.
        beside = FileDevice(Path(device.folder))
        remote = ObjectVolumes(self._store, lane, 0, self._randomness, beside, self._blocks)
        remote.check = lambda: check_claim(self._store, self._url, remote.epoch)
        self._remotes.append(remote)
        volumes = TieredVolumes(DeviceVolumes(device), remote, beside)
        return volumes, MakesOfFar(MakesApart(str(device.folder)), beside, volumes)

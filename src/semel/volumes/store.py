"""Where volumes are kept: few calls, which an object store can answer as well as a disk.

A volume is two files that never change once they are there: its batches and their index. It is
made elsewhere, under temporary names, and then created here: when that returns it is there to stay.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file.device import Device, Job, finish, read_beside
from semel.journal.pages import RESTORE
from semel.journal.runs import Run, gather
from semel.types import Buffer


class VolumeStore(Protocol):
    is_far: bool
    """They lie elsewhere than the journal, at least some."""

    def open(self, named: Mapping[int, str]) -> dict[int, int]:
        """Bytes by number of what is there, before anything else is asked for. Blocking.

        `named` are the volumes that are needed, each with what `create` has given. Raises
        CorruptJournal if one of them is missing, where that can be told without waiting for others.
        """

    async def tidy(self) -> dict[int, int]:
        """Remove what nobody can ever need; bytes by number of those that `open` could not tell.
        Raises OSError."""

    async def create(self, number: int, temporary: str) -> str:
        """Let a volume that was made under temporary names be there to stay. Gives the name by
        which it is found again, if its number is not enough. Raises OSError."""

    async def discard(self, number: int, temporary: str) -> None:
        """What there is of a volume that was not created. Raises OSError."""

    async def delete(self, numbers: Iterable[int]) -> None:
        """Those that are there. Raises OSError."""

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        """The bytes at these positions, which rise, if nothing of it has to be waited for."""

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        """As `read_now`. Raises CorruptJournal, and OSError: FileNotFoundError if a volume is
        there no longer."""

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        """What a lookup misses. Raises OSError."""


class DeviceVolumes:
    """On the device that has the journal, in the same folder."""

    is_far = False

    def __init__(self, device: Device) -> None:
        self._device = device

    def open(self, named: Mapping[int, str]) -> dict[int, int]:
        sizes = self._sizes()
        for number, name in named.items():
            if name:
                raise CorruptJournal(
                    f"volume {number} lies in a store and not in the folder: "
                    "`semel serve --volumes` reads it, and the file `volumes` of the folder says "
                    "where it is"
                )
        self._check_there(named)
        return sizes

    async def tidy(self) -> dict[int, int]:
        return {}

    def _sizes(self) -> dict[int, int]:
        found = self._device.names()
        sizes: dict[int, int] = {}
        for ending, name in (
            (names.VOLUME, names.volume),
            (names.VOLUME_INDEX, names.volume_index),
        ):
            for number in names.positions(found, ending):
                sizes[number] = sizes.get(number, 0) + self._device.size(name(number))
        return sizes

    def _check_there(self, numbers: Iterable[int]) -> None:
        there = set(self._device.names())
        for number in numbers:
            if names.volume(number) not in there:
                raise CorruptJournal(f"{names.volume(number)} is missing: {RESTORE}")
            if names.volume_index(number) not in there:
                raise CorruptJournal(
                    f"{names.volume_index(number)} is missing, which alone says whose batches "
                    f"{names.volume(number)} has: {RESTORE}"
                )

    async def create(self, number: int, temporary: str) -> str:
        await finish(self._device, _create(self._device, number, temporary))
        return ""

    async def discard(self, number: int, temporary: str) -> None:
        await finish(self._device, _discard(self._device, number, temporary))

    async def delete(self, numbers: Iterable[int]) -> None:
        await finish(self._device, _delete(self._device, list(numbers)))

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        found: list[memoryview] = []
        for run in _runs(extents):
            stored = self._device.read_now(*_locate(run))
            if stored is None or len(stored) != run.size:
                return None
            found += run.cut(stored)
        return found

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        found: list[memoryview] = []
        for run in _runs(extents):
            name, offset, size = _locate(run)
            stored: Buffer | None = self._device.read_now(name, offset, size)
            if stored is None:
                stored = await read_beside(self._device, name, offset, size)
            if len(stored) != size:
                raise CorruptJournal(
                    f"{name}, byte {offset}: {len(stored)} of {size} bytes are there"
                )
            found += run.cut(stored)
        return found

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        return await read_beside(self._device, name, offset, size)


def _runs(extents: list[tuple[int, int]]) -> list[Run]:
    return gather(extents, lambda position: names.volume_base(names.volume_at(position) + 1))


def _locate(run: Run) -> tuple[str, int, int]:
    number = names.volume_at(run.position)
    return names.volume(number), run.position - names.volume_base(number), run.size


def _create(device: Device, number: int, temporary: str) -> Job:
    for name in (names.volume(number), names.volume_index(number)):
        device.rename(name + temporary, name)
        yield
    device.sync_folder()


def _discard(device: Device, number: int, temporary: str) -> Job:
    for name in (names.volume(number), names.volume_index(number)):
        device.remove(name + temporary)
        yield


def _delete(device: Device, numbers: list[int]) -> Job:
    for number in numbers:
        device.remove(names.volume_index(number))
        device.remove(names.volume(number))
        yield


class NoVolumes:
    """Nothing is ever settled: for journals that have no folder."""

    is_far = False

    def open(self, named: Mapping[int, str]) -> dict[int, int]:
        for number in named:
            raise CorruptJournal(f"volume {number} is missing, and there is nowhere to keep one")
        return {}

    async def tidy(self) -> dict[int, int]:
        return {}

    async def create(self, number: int, temporary: str) -> str:
        raise OSError("there is nowhere to keep a volume")

    async def discard(self, number: int, temporary: str) -> None: ...

    async def delete(self, numbers: Iterable[int]) -> None: ...

    def read_now(self, extents: list[tuple[int, int]]) -> list[memoryview] | None:
        return None

    async def read_all(self, extents: list[tuple[int, int]]) -> list[memoryview]:
        raise FileNotFoundError("there are no volumes")

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        raise FileNotFoundError(name)

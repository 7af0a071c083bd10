"""Makes volumes of what lies far away: its indexes are brought, then the bytes that are needed.

They come to the device on which the volume is made, under the names that a segment or a volume has
in a folder, and go when it is made. What a killed process leaves there means nothing to the next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from semel.errors import CorruptJournal
from semel.journal import names
from semel.journal.file.device import Device
from semel.journal.pages import damaged
from semel.journal.sealed import HEADER_SIZE, read_header
from semel.types import Buffer
from semel.volumes.making import VolumeMaker
from semel.volumes.plans import CompactionPlan, Made, MeasuringPlan, SettlingPlan, SourceSize
from semel.volumes.ranges import Range

FETCHES_AT_ONCE: Final = 4
PIECE_SIZE: Final = 4 * 2**20

Result = TypeVar("Result")


class Sources(Protocol):
    """Where sources lie, by the position at which each begins."""

    def is_source_far(self, base: int) -> bool:
        """Not on the device."""

    async def read_past(self, position: int, size: int) -> Sequence[Buffer]:
        """Raises OSError."""

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        """Raises OSError."""


class RangingMaker(VolumeMaker, Protocol):
    async def needed(self, plan: SettlingPlan | CompactionPlan) -> list[Range]:
        """Which bytes it will read; the indexes are there. Raises OSError."""


class MakesOfFar:
    """A maker around one that finds all it needs on its device."""

    has_far_sources = True

    def __init__(self, maker: RangingMaker, device: Device, sources: Sources) -> None:
        self._maker = maker
        self._device = device
        self._sources = sources

    @property
    def bytes_per_s(self) -> int:
        return self._maker.bytes_per_s

    @bytes_per_s.setter
    def bytes_per_s(self, value: int) -> None:
        self._maker.bytes_per_s = value

    @property
    def niceness(self) -> int:
        return self._maker.niceness

    @niceness.setter
    def niceness(self, value: int) -> None:
        self._maker.niceness = value

    async def make(self, plan: SettlingPlan) -> Made:
        return await self._with(self._far(plan.sources), plan, lambda: self._maker.make(plan))

    async def compact(self, plan: CompactionPlan) -> Made:
        left = (each.compacted_base for each in plan.compactions)
        bases = {*plan.sources, *(base for base in left if base is not None)}
        return await self._with(self._far(sorted(bases)), plan, lambda: self._maker.compact(plan))

    async def measure(self, plan: MeasuringPlan) -> list[SourceSize]:
        return await self._with(self._far(plan.sources), None, lambda: self._maker.measure(plan))

    def _far(self, bases: Iterable[int]) -> list[int]:
        return [base for base in bases if self._sources.is_source_far(base)]

    async def _with(
        self,
        far: Sequence[int],
        plan: SettlingPlan | CompactionPlan | None,
        work: Callable[[], Awaitable[Result]],
    ) -> Result:
        try:
            for base in far:
                await self._bring_index(base)
            if plan is not None:
                await self._bring_data(far, plan)
            return await work()
        finally:
            for base in far:
                for name in (names.data_at(base), names.index_at(base)):
                    await asyncio.to_thread(self._device.remove, name)

    async def _bring_index(self, base: int) -> None:
        name = names.index_at(base)
        header = read_header(await self._sources.read_index(name, 0, HEADER_SIZE))
        if header is None:
            raise damaged(name, "this is no batch index")
        await asyncio.to_thread(self._device.create, name)
        for start in range(0, header.size, PIECE_SIZE):
            size = min(PIECE_SIZE, header.size - start)
            piece = await self._sources.read_index(name, start, size)
            await asyncio.to_thread(self._device.write, name, start, [piece])

    async def _bring_data(self, far: Sequence[int], plan: SettlingPlan | CompactionPlan) -> None:
        for base in far:
            await asyncio.to_thread(self._device.create, names.data_at(base))
        wanted = [each for each in await self._maker.needed(plan) if each.base in far]
        wanted.reverse()

        async def fetch() -> None:
            while wanted:
                base, position, size = _fields(wanted.pop())
                parts = await self._sources.read_past(position, size)
                await asyncio.to_thread(
                    self._device.write, names.data_at(base), position - base, parts
                )

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(FETCHES_AT_ONCE):
                    tasks.create_task(fetch())
        except* (OSError, CorruptJournal) as failures:
            raise _first(failures) from None


def _fields(wanted: Range) -> tuple[int, int, int]:
    return wanted.base, wanted.position, wanted.size


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

"""The volumes of a lane whose journal lies in slots: where they lie, and who makes them."""

from collections.abc import Sequence

from semel.journal.file.device import Device
from semel.journal.names import VOLUME_INDEX, VOLUMES_FROM
from semel.journal.slots.journal import SlotJournal
from semel.store.seam import Store
from semel.types import Buffer
from semel.volumes.fetching import MakesOfFar, RangingMaker
from semel.volumes.objects import ObjectVolumes
from semel.world import Randomness


class SlotSources:
    """All of it lies in the store: stretches of the journal in slots, volumes beside them."""

    def __init__(self, journal: SlotJournal, volumes: ObjectVolumes) -> None:
        self._journal = journal
        self._volumes = volumes

    def is_source_far(self, base: int) -> bool:
        return True

    async def read_past(self, position: int, size: int) -> Sequence[Buffer]:
        if position >= VOLUMES_FROM:
            return await self._volumes.read_past(position, size)
        return await self._journal.read_past(position, size)

    async def read_index(self, name: str, offset: int, size: int) -> Buffer:
        if name.endswith(VOLUME_INDEX):
            return await self._volumes.read_index(name, offset, size)
        return await self._journal.read_index(name, offset, size)


def volumes_in(
    store: Store,
    lane: int,
    journal: SlotJournal,
    randomness: Randomness,
    device: Device,
    maker: RangingMaker,
) -> tuple[ObjectVolumes, MakesOfFar]:
    """`device` is where the maker finds what it needs and leaves what it makes; it holds nothing
    that must last."""
    assert journal.epoch is not None
    volumes = ObjectVolumes(store, lane, journal.epoch, randomness, device, journal.blocks)
    return volumes, MakesOfFar(maker, device, SlotSources(journal, volumes))

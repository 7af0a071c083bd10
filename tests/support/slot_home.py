"""A lane whose journal and volumes lie in a store in memory: to be led, killed and led again."""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import TypeVar

from semel.journal.file.memory import MemoryDevice
from semel.journal.slots import keys
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.settings import SlotSettings
from semel.lane.commands import LaneSettings
from semel.lane.lane import Lane
from semel.lane.leader import Leader
from semel.lane.settling import Volumes
from semel.store.disk_cache import DiskCache
from semel.store.in_memory import Bucket, Chances, MemoryStore
from semel.store.seam import StoreError
from semel.volumes.making import MakesHere
from semel.volumes.on_store import volumes_in
from support.handled import LoopClock, SeededRandomness

Result = TypeVar("Result")
STRETCH_BYTES = 64 * 1024
SLOT_SETTINGS = SlotSettings(
    slot_bytes=32 * 1024,
    unconfirmed_bytes=2**20,
    stretch_bytes=STRETCH_BYTES,
    checkpoint_slots=50,
    tail_bytes=4096,
    cache_bytes=2**20,
    barrier_s=None,
)
CALM = Chances(latency_s_mean=0.002)


class StepStore(MemoryStore):
    """A way to the store that ends at one call, which arrives or not: nothing is heard of it, and
    nothing is asked any more."""

    def __init__(self, bucket: Bucket, rng: Random, chances: Chances) -> None:
        super().__init__(bucket, rng, chances)
        self.calls = 0
        self.last_call: int | None = None
        self.is_last_done = False
        self.has_ended = asyncio.Event()

    async def _send(
        self, deed: Callable[[], Result], in_part: Callable[[], object] | None = None
    ) -> Result:
        self.calls += 1
        if self.last_call is not None and self.calls >= self.last_call:
            if self.calls == self.last_call and self.is_last_done:
                with contextlib.suppress(StoreError):
                    deed()
            self.has_ended.set()
            await asyncio.Event().wait()
        return await super()._send(deed, in_part)


class SlotHome:
    """What lasts, and whoever leads it now."""

    def __init__(self, rng: Random, settings: LaneSettings, chances: Chances = CALM) -> None:
        self.bucket = Bucket()
        self.chances = chances
        self.cache: DiskCache | None = None
        self.warnings: list[str] = []
        self._rng = rng
        self._settings = settings
        self._life = 0
        self.store: StepStore
        self.journal: SlotJournal
        self.lane: Lane
        self.device: MemoryDevice

    async def lead(self) -> Lane:
        self._life += 1
        rng = Random(f"{self._rng.random()} {self._life}")
        self.store = StepStore(self.bucket, rng, self.chances)
        randomness = SeededRandomness(rng)
        self.journal = await SlotJournal.open(self.store, 0, self._life, randomness, SLOT_SETTINGS)
        if self.cache is not None:
            assert self.journal.epoch is not None
            self.journal.use_cache(self.cache.of_leader(self.journal.epoch, keys.reused(0)))
        self.lane = Lane(
            self.journal,
            self._settings,
            LoopClock(),
            randomness,
            volumes=self.volumes(randomness, rng),
        )
        leader = Leader(b"c" * 16, self._life, "host", 9092)
        await self.lane.start(self._failed, self.warnings.append, leader)
        return self.lane

    def volumes(self, randomness: SeededRandomness, rng: Random) -> Volumes:
        self.device = MemoryDevice(rng)
        self.device.start(asyncio.get_running_loop())
        return Volumes(
            *volumes_in(
                self.store, 0, self.journal, randomness, self.device, MakesHere(self.device)
            )
        )

    def _failed(self, error: BaseException) -> None:
        """Another leads, as a test has it."""

    def kill(self) -> None:
        """What it has asked for may arrive yet; nothing more is asked."""
        self.store.last_call = 0
        self.lane.leave()

    def bytes_stored(self, folder: str = "") -> int:
        return sum(
            len(stored) for key, stored in self.bucket.objects.items() if key.startswith(folder)
        )

    def keys(self, folder: str) -> list[str]:
        return sorted(key for key in self.bucket.objects if key.startswith(folder))

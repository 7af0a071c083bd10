"""One node's way to the store, on which certain entries of the journal are lost or late."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple, NoReturn

from semel.store.in_memory import Bucket, Chances, MemoryStore
from semel.store.seam import StoreAway, StoreError
from semel.types import Buffer
from semel.verify.world.slots_seen import SLOTS, SlotAt, slot_of

KIND_AT: Final = 5
FENCE: Final = b"F"
DATA: Final = b"D"
UNHEARD_VOLUMES: Final = "volumes stored unheard"


class Sent(NamedTuple):
    """An entry on its way to its slot."""

    at: SlotAt
    kind: bytes


def nothing(sent: Sent) -> bool:
    return False


class NodeStore(MemoryStore):
    loses: Callable[[Sent], bool] = staticmethod(nothing)
    """Whether this entry, as often as it is sent, never arrives."""
    holds: Callable[[Sent], bool] = staticmethod(nothing)
    """Whether it arrives when it is told to, as often as it is sent."""
    is_unheard: Callable[[str], bool] = staticmethod(lambda key: False)
    """Whether what is created under this key is there, and the answer is lost."""
    is_unheard_of: Callable[[SlotAt], bool] = staticmethod(lambda at: False)
    """Whether no answer about this slot is heard, whatever it was asked."""

    def __init__(self, bucket: Bucket, random: Random, chances: Chances) -> None:
        super().__init__(bucket, random, chances)
        self.held: dict[SlotAt, tuple[str, bytes]] = {}

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        if key.startswith(SLOTS):
            content = b"".join(parts)
            sent = Sent(slot_of(key), content[KIND_AT : KIND_AT + 1])
            if self.loses(sent):
                await self._hear_nothing(key, "entries lost on purpose")
            if self.holds(sent):
                self.held[sent.at] = key, content
                await self._hear_nothing(key, "entries held")
            if self.is_unheard_of(sent.at):
                with contextlib.suppress(StoreError):
                    await super().create(key, parts)
                await self._hear_nothing(key, "entries stored unheard")
        await super().create(key, parts)
        if self.is_unheard(key):
            await self._hear_nothing(key, UNHEARD_VOLUMES)

    async def get(self, key: str) -> bytes:
        if key.startswith(SLOTS) and self.is_unheard_of(slot_of(key)):
            await self._hear_nothing(key, "slots asked for unheard")
        return await super().get(key)

    async def _hear_nothing(self, key: str, name: str) -> NoReturn:
        self.bucket.counts[name] += 1
        await asyncio.sleep(self.chances.timeout_s)
        raise StoreAway(key)

    def arrive(self, at: SlotAt) -> None:
        """Nobody hears of it."""
        with contextlib.suppress(StoreError):
            self.bucket.create(*self.held[at])

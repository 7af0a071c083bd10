"""One node's way to the store, on which certain entries of the journal are lost."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from semel.store.in_memory import MemoryStore
from semel.store.seam import StoreAway
from semel.types import Buffer
from semel.verify.world.slots_seen import SLOTS, SlotAt, slot_of

KIND_AT: Final = 5
FENCE: Final = b"F"
DATA: Final = b"D"


class Sent(NamedTuple):
    """An entry on its way to its slot."""

    at: SlotAt
    kind: bytes


class NodeStore(MemoryStore):
    loses: Callable[[Sent], bool] = staticmethod(lambda sent: False)
    """Whether this entry, as often as it is sent, never arrives."""

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        if key.startswith(SLOTS):
            kind = b"".join(parts)[KIND_AT : KIND_AT + 1]
            if self.loses(Sent(slot_of(key), kind)):
                self.bucket.counts["entries lost on purpose"] += 1
                await asyncio.sleep(self.chances.timeout_s)
                raise StoreAway(key)
        await super().create(key, parts)

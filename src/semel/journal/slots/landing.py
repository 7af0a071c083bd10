"""Rule 15: how an entry gets into its slot.

    Slots are only created if absent. After an error or "exists" the slot is read: one's own entry
    is success, a foreign one means that another leads, and if there is none the same bytes are put
    into the same slot again, for ever.

Other bytes, or another slot, would leave two entries of which both might land.
"""

import asyncio
from collections.abc import Sequence
from enum import Enum, auto

from semel.journal.slots.calls import Calls
from semel.journal.slots.entries import Entry, decode
from semel.store.seam import ObjectExists, StoreAway, StoreRefused
from semel.types import Buffer


class Found(Enum):
    FREE = auto()
    OURS = auto()
    FOREIGN = auto()
    VOID = auto()
    """Of one who led before, and what stands there does not count."""


def judge(nonce: bytes | None, entry: Entry | None) -> Found:
    """What a slot holds, for the one whose entry has this nonce; None: it has none there."""
    if entry is None:
        return Found.FREE
    return Found.OURS if entry.head.nonce == nonce else Found.FOREIGN


async def land(calls: Calls, key: str, parts: Sequence[Buffer], nonce: bytes) -> Entry | None:
    """None once the entry is there; else what is there instead. Raises CorruptJournal."""
    delays = calls.delays()
    while True:
        try:
            await calls.create(key, parts)
        except (ObjectExists, StoreAway, StoreRefused):
            pass
        else:
            return None
        stored = await calls.until_got(key)
        entry = None if stored is None else decode(stored, key)
        match judge(nonce, entry):
            case Found.OURS:
                return None
            case Found.FOREIGN:
                return entry
            case Found.FREE:
                await asyncio.sleep(next(delays))

"""The first entries of a journal that goes on from another: its epochs must rise from there."""

from semel.errors import CorruptJournal
from semel.journal.slots import keys
from semel.journal.slots.calls import Calls
from semel.journal.slots.entries import NONCE_SIZE, Head, Kind, encode, successor_bytes
from semel.journal.slots.history import NO_EPOCH
from semel.journal.slots.landing import land
from semel.journal.slots.settings import SlotSettings
from semel.store.seam import Store
from semel.types import Position
from semel.world import Randomness


async def begin_at(
    store: Store, lane: int, epoch: int, node: int, randomness: Randomness, settings: SlotSettings
) -> None:
    """As if someone had led in this epoch, said nothing, and left in order. In a lane without any
    entry. Raises CorruptJournal."""
    assert epoch > NO_EPOCH
    calls = Calls(store, settings)
    body = successor_bytes(None)
    for slot, (kind, parts) in enumerate([(Kind.FENCE, []), (Kind.SEAL, [body])]):
        nonce = randomness.token_bytes(NONCE_SIZE)
        size = sum(map(len, parts))
        head = Head(kind, epoch, epoch, node, nonce, Position(0), Position(0), size)
        if await land(calls, keys.slot(lane, slot), [encode(head), *parts], nonce) is not None:
            raise CorruptJournal(f"there are entries in lane {lane} already")

"""Lanes that only remember, on slots of one store: who leads, who was away, who stands by."""

from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from semel.journal.slots.calls import Calls
from semel.journal.slots.entries import Head, Kind, encode
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.settings import SlotSettings
from semel.types import Position
from support import seeded_loop
from support.journal_world import SEPARATOR, RememberingOn
from support.slot_store import SeededRandomness, SlotStore, alone

T = TypeVar("T")
SETTINGS = SlotSettings(
    slot_bytes=4096, unconfirmed_bytes=2**16, stretch_bytes=8192, checkpoint_slots=1000
)

Leader = RememberingOn[SlotJournal]


def run(main: Coroutine[Any, Any, T], seed: int = 1) -> T:
    return seeded_loop.run(Random(seed), alone(main))


def randomness(seed: object) -> SeededRandomness:
    return SeededRandomness(Random(f"nonces {seed}"))


async def lead(store: SlotStore, node: int = 1, settings: SlotSettings = SETTINGS) -> Leader:
    """Takes the lane."""
    journal = await SlotJournal.open(store, 0, node, randomness((node, len(store.calls))), settings)
    lane = RememberingOn(journal)
    lane.start()
    return lane


async def say(lane: Leader, *payloads: bytes) -> None:
    """Each in a slot of its own, durable."""
    for payload in payloads:
        assert await lane.durable(lane.append(payload)), lane.failures


def stored_entry(
    kind: Kind, epoch: int, nonce: bytes = b"n" * 16, node: int = 9, position: int = 0
) -> bytes:
    """Of nobody who is there: without a body."""
    at = Position(position)
    return encode(Head(kind, epoch, epoch, node, nonce, at, at, 0))


class StandBy:
    """Remembers what it follows, and leads on from there."""

    def __init__(self, store: SlotStore, settings: SlotSettings = SETTINGS) -> None:
        self.follower = Follower(store, 0, settings)
        self.payloads: list[bytes] = []

    async def begin(self) -> None:
        await self.follower.begin()
        self._restore()

    def _restore(self) -> None:
        stored = self.follower.checkpoint
        self.payloads = stored.split(SEPARATOR)[:-1] if stored else []

    async def look(self) -> bool:
        is_anew = await self.follower.look()
        if is_anew:
            self._restore()
        for position, payload in self.follower.replay():
            offset = len(self.payloads)
            self.follower.index.add(0, offset, position, len(payload), offset * 10)
            self.payloads.append(bytes(payload))
        return is_anew

    async def take(self, node: int, seed: object = 0) -> Leader:
        journal = await self.follower.take(node, randomness((node, seed)))
        lane = RememberingOn(journal, self.payloads if journal.is_continued else [])
        lane.start()
        return lane


def calls_of(store: SlotStore, settings: SlotSettings = SETTINGS) -> Calls:
    return Calls(store, settings)

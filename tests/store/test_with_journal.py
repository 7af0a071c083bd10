"""Two stores as one: what lies where, and that nothing is looked for in both."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

from semel.store.in_memory import Bucket, MemoryStore
from semel.store.opening import open_store
from semel.store.probe import probe
from semel.store.settings import StoreSettings
from semel.store.with_journal import WithJournal
from semel.types import Buffer
from semel.verify.world.loop import SeededRandomness

SLOT, CHECKPOINT, VOLUME = "j/0000/1", "ck/0000/1", "vol/1"


async def pieces() -> AsyncIterator[Buffer]:
    yield b"volume"


def test_slots_lie_in_one_store_and_all_else_in_the_other() -> None:
    rest, slots = MemoryStore(Bucket()), MemoryStore(Bucket())
    store = WithJournal(rest, slots)

    async def main() -> None:
        await store.create(SLOT, [b"slot"])
        await store.create(CHECKPOINT, [b"checkpoint"])
        await store.create_large(VOLUME, pieces())
        assert (list(slots.bucket.objects), list(rest.bucket.objects)) == (
            [SLOT],
            [CHECKPOINT, VOLUME],
        )
        assert await store.get(SLOT) == b"slot"
        assert await store.get(CHECKPOINT) == b"checkpoint"
        assert await store.get_range(SLOT, 1, 2) == b"lo"
        assert [found.key for found in await store.list("j/0000/")] == [SLOT]
        assert [found.key for found in await store.list("ck/0000/")] == [CHECKPOINT]
        await store.delete([SLOT, VOLUME])
        assert (list(slots.bucket.objects), list(rest.bucket.objects)) == ([], [CHECKPOINT])

    asyncio.run(main())


def test_the_probe_asks_the_store_that_leadership_rests_on() -> None:
    class Careless(Bucket):
        def create(self, key: str, content: bytes) -> None:
            self.objects[key] = content

    store = WithJournal(MemoryStore(Careless()), MemoryStore(Bucket()))
    asyncio.run(probe(store, SeededRandomness(1)))


def test_two_stores_of_one_kind_are_told_apart_and_what_is_kept_is_paid_once() -> None:
    settings = StoreSettings("memory:///", is_ephemeral=True)
    store = WithJournal(open_store(settings, Random(1)), open_store(settings, Random(2)))
    slots, rest = store.counted
    assert (slots.name, rest.name) == ("memory-journal", "memory")
    assert (slots.has_slots, slots.has_volumes) == (True, False)
    assert (rest.has_slots, rest.has_volumes) == (False, True)

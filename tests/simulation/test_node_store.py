"""A node's way to the store, on which what is meant to be lost is, and nothing else."""

from random import Random

import pytest

from semel.store.in_memory import CALM, Bucket
from semel.store.seam import StoreAway
from semel.verify.world.loop import simulate
from semel.verify.world.node_store import NodeStore

SLOT = "j/0001/000000000007"
OTHER = "j/0002/000000000007"


def test_of_slots_that_are_not_heard_of_nothing_is_told_and_all_is_done() -> None:
    async def main() -> None:
        bucket = Bucket()
        store = NodeStore(bucket, Random(1), CALM)
        store.is_unheard_of = lambda at: at.lane == 1
        content = b"SMLJ\x01D"
        for _ in range(2):
            with pytest.raises(StoreAway):
                await store.create(SLOT, [content])
        assert bucket.get(SLOT) == content
        with pytest.raises(StoreAway):
            await store.get(SLOT)
        await store.create(OTHER, [content])
        assert await store.get(OTHER) == content
        store.is_unheard_of = lambda at: False
        assert await store.get(SLOT) == content

    simulate(1, main)

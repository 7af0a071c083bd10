"""Ranges of objects are read by the block, once for all who miss it, and never too many at once."""

import asyncio
from random import Random

import pytest

from semel.errors import StorageAway
from semel.store.blocks import BLOCK_SIZE, GETS_AT_ONCE, Blocks
from semel.store.seam import StoreAway
from semel.types import Buffer
from support.seeded_loop import run

OBJECTS = {f"k{number}": Random(number).randbytes(3 * BLOCK_SIZE + 1000) for number in range(20)}


class Objects:
    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.under_way = 0
        self.most_at_once = 0
        self.is_away = False

    async def get_range(self, key: str, start: int, size: int) -> Buffer | None:
        self.asked.append((key, start, size))
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        await asyncio.sleep(0.03)
        self.under_way -= 1
        if self.is_away:
            raise StoreAway("away")
        stored = OBJECTS.get(key)
        return None if stored is None else stored[start : start + size]


def test_any_range_is_what_lies_there_and_what_lies_behind_is_read_with_it() -> None:
    async def live() -> None:
        objects = Objects()
        blocks = Blocks(objects.get_range, 8 * BLOCK_SIZE)
        rng = Random(1)
        for _ in range(200):
            key = f"k{rng.randrange(4)}"
            start = rng.randrange(len(OBJECTS[key]) - 1)
            size = rng.randint(1, min(len(OBJECTS[key]) - start, BLOCK_SIZE + 5000))
            expected = OBJECTS[key][start : start + size]
            read = blocks.read_past if rng.random() < 0.2 else blocks.read
            assert bytes(await read(key, start, size)) == expected
        begun = len(objects.asked)
        assert bytes(await blocks.read("k9", 10, 10)) == OBJECTS["k9"][10:20]
        assert blocks.read_now("k9", 500_000, 7) == OBJECTS["k9"][500_000:500_007]
        assert len(objects.asked) == begun + 1

    run(Random(1), live())


def test_many_who_miss_one_block_ask_for_it_once_and_few_are_read_at_once() -> None:
    async def live() -> None:
        objects = Objects()
        blocks = Blocks(objects.get_range, 64 * BLOCK_SIZE)
        same = [blocks.read("k1", 100, 50) for _ in range(50)]
        others = [blocks.read(key, 5, 5) for key in OBJECTS if key != "k1"]
        found = await asyncio.gather(*same, *others)
        assert {bytes(each) for each in found[:50]} == {OBJECTS["k1"][100:150]}
        assert len(objects.asked) == len(OBJECTS)
        assert objects.most_at_once <= GETS_AT_ONCE

    run(Random(1), live())


def test_what_cannot_be_read_is_told_to_each_and_read_again_later() -> None:
    async def live() -> None:
        objects = Objects()
        blocks = Blocks(objects.get_range, 8 * BLOCK_SIZE)
        objects.is_away = True
        failed = await asyncio.gather(
            *(blocks.read("k1", 0, 10) for _ in range(3)), return_exceptions=True
        )
        # It is no damage.
        assert all(isinstance(each, StorageAway) for each in failed)
        objects.is_away = False
        assert bytes(await blocks.read("k1", 0, 10)) == OBJECTS["k1"][:10]
        with pytest.raises(FileNotFoundError):
            await blocks.read("gone", 0, 10)
        with pytest.raises(OSError, match="ends at byte"):
            await blocks.read("k1", 3 * BLOCK_SIZE, 2000)
        with pytest.raises(OSError, match="ends at byte"):
            await blocks.read("k1", 3 * BLOCK_SIZE, 2000)

    run(Random(1), live())


def test_no_more_is_held_than_it_may() -> None:
    async def live() -> None:
        objects = Objects()
        blocks = Blocks(objects.get_range, 2 * BLOCK_SIZE)
        for key in OBJECTS:
            await blocks.read(key, 0, 10)
        held = [key for key in OBJECTS if blocks.read_now(key, 0, 10) is not None]
        assert held == ["k18", "k19"]

    run(Random(1), live())

"""Old data in a store: a start reads none of it, and who reads it holds nobody up."""

import asyncio
from random import Random

from lane.test_settling_on_store import World
from semel.lane.partition_log import Stored, Wanted
from semel.records import batch as record_batch
from semel.store.blocks import BLOCK_SIZE, GETS_AT_ONCE
from semel.store.in_memory import Chances
from semel.types import Offset
from support.seeded_loop import run
from support.slot_home import STRETCH_BYTES
from support.slot_store import alone

GET_S = 0.05


async def with_volumes(seed: int, rounds: int) -> World:
    """A lane that was led, and of which so much is settled."""
    world = World(seed)
    await world.lead()
    world.create("a")
    for _ in range(rounds):
        for _ in range(4):
            for _ in range(100):
                world.produce("a")
            await world.lane.until_durable()
        await world.settle()
    await world.lane.close()
    return world


def test_who_takes_the_lane_asks_as_much_however_much_is_old() -> None:
    async def calls_of_start(rounds: int) -> tuple[int, int]:
        world = await with_volumes(1, rounds)
        await world.lead()
        return world.home.store.calls, world.home.bytes_stored("vol/")

    async def live() -> None:
        few, few_bytes = await calls_of_start(2)
        many, many_bytes = await calls_of_start(20)
        assert many_bytes > 8 * few_bytes
        assert many <= few + 2

    run(Random(1), alone(live()))


async def read_on(world: World, topic: str) -> int:
    """All of it, as a consumer that is far behind does; gives the bytes."""
    partition = world.lane.view.partition(topic, 0)
    log = world.lane.log
    offset, size = partition.log_start_offset, 0
    while offset < partition.high_watermark:
        wanted = Wanted(partition, offset, partition.high_watermark, 8_000)
        (stored,) = await log.read(await log.find([wanted], 8_000), with_aborted=False)
        assert isinstance(stored, Stored), stored
        for batch in stored.batches:
            size += len(batch)
            offset = Offset(record_batch.read(batch).last_offset + 1)
    return size


def test_who_reads_what_is_old_holds_up_nobody_who_writes_or_reads_the_newest() -> None:
    """In simulated time: what is written beside readers is durable as soon as without them."""

    async def longest_s(world: World, count: int) -> float:
        loop = asyncio.get_running_loop()
        longest = 0.0
        for _ in range(count):
            begun_s = loop.time()
            world.produce("new")
            await world.lane.until_durable()
            partition = world.lane.view.partition("new", 0)
            last = Offset(partition.high_watermark - 1)
            found = world.lane.log.find_now([Wanted(partition, last, Offset(last + 1), 1)], 1)
            assert found is not None, "the newest is in memory"
            assert world.lane.log.read_now(found, with_aborted=False) is not None
            longest = max(longest, loop.time() - begun_s)
        return longest

    async def live() -> None:
        world = await with_volumes(2, 8)
        await world.lead()
        world.create("new")
        store = world.home.store
        store.chances = Chances()
        created, read = store.create, store.get_range
        under_way = most_under_way = 0

        async def create(key: str, parts: list[bytes]) -> None:
            await asyncio.sleep(GET_S)
            await created(key, parts)

        async def get_range(key: str, start: int, size: int) -> bytes:
            nonlocal under_way, most_under_way
            under_way += 1
            most_under_way = max(most_under_way, under_way)
            await asyncio.sleep(10 * GET_S)
            under_way -= 1
            return bytes(await read(key, start, size))

        store.create = create  # type: ignore[assignment,method-assign]
        store.get_range = get_range  # type: ignore[method-assign]
        alone_s = await longest_s(world, 20)
        readers = [asyncio.ensure_future(read_on(world, "a")) for _ in range(30)]
        beside_s = await longest_s(world, 20)
        assert beside_s <= alone_s * 1.01
        sizes = set(await asyncio.gather(*readers))
        assert len(sizes) == 1
        assert sizes.pop() > 20 * STRETCH_BYTES
        assert most_under_way <= GETS_AT_ONCE

    run(Random(2), alone(live()))


def test_who_reads_on_asks_for_a_megabyte_at_a_time() -> None:
    async def live() -> None:
        world = await with_volumes(3, 10)
        await world.lead()
        size = await read_on(world, "a")
        objects = len(world.home.keys("vol/")) + len(world.home.keys("ix/"))
        slots = len(world.home.keys("j/"))
        blocks = world.home.journal.blocks
        assert blocks.gets <= size // BLOCK_SIZE + objects + slots

    run(Random(3), alone(live()))

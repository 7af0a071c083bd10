"""A lane on slots with a cache: fewer reads of the store, and the same answers."""

import asyncio
from pathlib import Path
from random import Random

from lane.test_settling_on_store import World
from semel.store.disk_cache import DiskCache, Folder
from semel.store.in_memory import Chances
from support.seeded_loop import run
from support.slot_home import CALM
from support.slot_store import alone


def cached(folder: Path, seed: int, chances: Chances = CALM) -> World:
    world = World(seed, chances)
    world.home.cache = DiskCache(Folder(folder), 2**30)
    return world


def files_of(folder: Path, start: str) -> list[Path]:
    return [path for path in folder.iterdir() if f"+{start}+" in path.name]


def damage_all(folder: Path, rng: Random) -> None:
    for path in folder.iterdir():
        stored = bytearray(path.read_bytes())
        stored[rng.randrange(len(stored))] ^= 1
        path.write_bytes(stored)


def test_what_the_leader_has_written_is_read_without_the_store(tmp_path: Path) -> None:
    async def live() -> None:
        world = cached(tmp_path, 1)
        await world.lead()
        await world.some_changes(300)
        await world.check()
        # Indexes are read when they are first needed.
        assert world.home.journal.blocks.gets <= len(world.home.keys("ix/"))
        assert world.home.cache is not None
        assert world.home.cache.hits > 0

    run(Random(1), alone(live()))


def test_nothing_is_cached_of_a_slot_that_is_not_confirmed(tmp_path: Path) -> None:
    """Rule 34: another may have it."""

    async def live() -> None:
        world = cached(tmp_path, 1)
        await world.lead()
        await world.some_changes(50)
        await world.lane.until_durable()
        await asyncio.sleep(1)
        before = set(files_of(tmp_path, "j"))
        assert before
        world.home.bucket.is_away = True
        world.produce("a")
        await asyncio.sleep(5)
        assert set(files_of(tmp_path, "j")) == before
        world.home.bucket.is_away = False
        await world.lane.until_durable()
        await asyncio.sleep(1)
        assert set(files_of(tmp_path, "j")) > before

    run(Random(1), alone(live()))


def test_another_store_under_the_same_keys_is_read_as_it_is(tmp_path: Path) -> None:
    """As after a restore, or where a cluster was made anew."""

    async def live() -> None:
        for seed in (1, 2):
            world = cached(tmp_path, seed)
            await world.lead()
            await world.some_changes(300)
            await world.settle()
            await world.check()
            world.home.kill()
            await world.lead()
            await world.check()

    run(Random(1), alone(live()))


def test_volumes_are_found_in_the_cache_after_a_restart_and_damage_is_a_miss(
    tmp_path: Path,
) -> None:
    async def live() -> None:
        world = cached(tmp_path, 3)
        await world.lead()
        await world.some_changes(900)
        await world.settle()
        await world.check()
        assert world.lane._state.volumes
        assert files_of(tmp_path, "vol+0000")
        world.home.kill()
        rng = Random(3)
        world.home.cache = DiskCache(Folder(tmp_path), 2**30)
        await world.lead()
        await world.check()
        undamaged_gets = world.home.journal.blocks.gets
        world.home.kill()
        damage_all(tmp_path, rng)
        world.home.cache = DiskCache(Folder(tmp_path), 2**30)
        await world.lead()
        await world.check()
        assert world.home.journal.blocks.gets > undamaged_gets

    run(Random(3), alone(live()))


def test_slots_that_are_freed_leave_the_cache(tmp_path: Path) -> None:
    async def live() -> None:
        world = cached(tmp_path, 4)
        await world.lead()
        await world.some_changes(600)
        await world.lane.until_durable()
        await asyncio.sleep(1)
        before = len(files_of(tmp_path, "j"))
        for topic in list(world.values):
            world.delete_topic(topic)
        for _ in range(2):
            await world.settle()
        await asyncio.sleep(1)
        assert len(files_of(tmp_path, "j")) < before / 4

    run(Random(4), alone(live()))

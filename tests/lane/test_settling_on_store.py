"""What lives on of a journal in slots is found in volumes of the same store, whatever happens."""

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from random import Random
from typing import Any

import pytest

from lane import test_compacting, test_settling
from lane.test_settling import SETTINGS, always
from semel.journal.file.memory import MemoryDevice
from semel.lane.lane import Lane
from semel.store.in_memory import BAD_DAY, Chances
from semel.types import Buffer
from support.seeded_loop import run
from support.slot_home import CALM, STRETCH_BYTES, SlotHome
from support.slot_store import alone


class World(test_settling.World):
    def __init__(self, seed: int, chances: Chances = CALM) -> None:
        super().__init__(MemoryDevice(Random(seed)), seed)
        self.home = SlotHome(self.rng, SETTINGS, chances)

    async def lead(self) -> None:
        self.lane = await self.home.lead()

    async def try_to_settle(self) -> list[str]:
        warnings: list[str] = []
        await self.lane.settling.round(warnings.append)
        return warnings


class CompactingWorld(test_compacting.World):
    def __init__(self, seed: int) -> None:
        super().__init__(MemoryDevice(Random(seed)), seed)
        self.home = SlotHome(self.rng, SETTINGS)

    async def start(self) -> None:
        self.lane = await self.home.lead()


def named_and_stored(home: SlotHome, lane: Lane) -> tuple[set[str], set[str]]:
    keys = home.keys("vol/0000/")
    stored = {key.removeprefix("vol/0000/").removesuffix(".idx") for key in keys}
    return set(lane._state.volume_names.values()), stored


async def until_it_ends(home: SlotHome, work: Coroutine[Any, Any, None]) -> bool:
    """The process ends at the call at which its store does; whether the work was over by then."""
    working = asyncio.ensure_future(work)
    ended = asyncio.ensure_future(home.store.has_ended.wait())
    await asyncio.wait((working, ended), return_when=asyncio.FIRST_COMPLETED)
    is_over = working.done()
    working.cancel()
    ended.cancel()
    home.kill()
    return is_over


@pytest.mark.parametrize("seed", range(6))
def test_all_that_is_not_deleted_is_read_after_settling_and_kills(seed: int) -> None:
    async def live() -> None:
        world = World(seed)
        await world.lead()
        for round_number in range(12):
            await world.some_changes(300)
            await world.lane.until_durable()
            await world.settle()
            await world.check()
            if round_number % 3 == 2:
                world.home.kill()
                await world.lead()
                await world.check()
        assert world.lane._state.volumes
        for topic in list(world.values):
            world.delete_topic(topic)
        for _ in range(3):
            await world.settle()
        assert world.lane._state.volumes == []
        assert world.home.keys("vol/") == []
        assert world.home.bytes_stored() < 4 * STRETCH_BYTES
        await world.lane.close()

    run(Random(seed), alone(live()))


@pytest.mark.parametrize("is_last_done", [False, True])
def test_a_crash_at_any_call_of_the_store_while_it_settles_loses_nothing(
    is_last_done: bool,
) -> None:
    async def live(number: int) -> bool:
        world = World(3)
        await world.lead()
        await world.some_changes(500)
        await world.lane.until_durable()
        store = world.home.store
        store.last_call = store.calls + 1 + number
        store.is_last_done = is_last_done
        is_over = await until_it_ends(world.home, world.settle())
        await world.lead()
        await world.check()
        await world.settle()
        await world.check()
        named, stored = named_and_stored(world.home, world.lane)
        assert stored == named, "what no frame names has gone, and nothing else"
        await world.lane.close()
        return is_over

    number = 0
    while not run(Random(1), alone(live(number))):
        number += 1
    assert number > 10


@pytest.mark.parametrize("is_last_done", [False, True])
def test_a_crash_at_any_call_of_the_store_while_it_compacts_loses_nothing(
    is_last_done: bool,
) -> None:
    async def live(number: int) -> bool:
        world = CompactingWorld(3)
        await world.start()
        await world.change(500)
        store = world.home.store
        store.last_call = store.calls + 1 + number
        store.is_last_done = is_last_done
        is_over = await until_it_ends(world.home, world.tidy())
        await world.start()
        await world.check()
        await world.tidy()
        await world.check()
        named, stored = named_and_stored(world.home, world.lane)
        assert stored == named
        await world.lane.close()
        return is_over

    number = 0
    while not run(Random(1), alone(live(number))):
        number += 1
    assert number > 10


@pytest.mark.parametrize("seed", range(3))
def test_the_newest_of_each_key_is_there_whatever_was_compacted_settled_and_lost(
    seed: int,
) -> None:
    async def live() -> None:
        world = CompactingWorld(seed)
        await world.start()
        for round_number in range(9):
            await world.change(250)
            await world.tidy()
            await world.check()
            if round_number % 3 == 2:
                world.home.kill()
                await world.start()
                await world.check()
                await world.outlast_tombstones()
        assert world.lane._state.compacted
        assert len(await world.committed("c")) < len(world.written["c"]) / 3
        named, stored = named_and_stored(world.home, world.lane)
        assert named <= stored
        await world.lane.close()

    run(Random(seed), alone(live()))


@pytest.mark.parametrize("seed", range(4))
def test_a_store_on_a_bad_day_costs_patience_and_nothing_else(seed: int) -> None:
    async def live() -> None:
        world = World(seed)
        await world.lead()
        await world.some_changes(600)
        await world.lane.until_durable()
        world.home.store.chances = BAD_DAY
        for _ in range(8):
            await world.try_to_settle()
        world.home.store.chances = CALM
        await world.settle()
        assert world.lane._state.volumes
        await world.check()
        # What was sent and not heard of may have landed by then; the next leader removes it.
        await asyncio.sleep(60)
        world.home.kill()
        await world.lead()
        await world.settle()
        await world.check()
        named, stored = named_and_stored(world.home, world.lane)
        assert named == stored
        await world.lane.close()

    run(Random(seed), alone(live()))


def test_while_the_store_is_away_nothing_is_settled_and_later_it_is() -> None:
    async def live() -> None:
        world = World(1)
        await world.lead()
        await world.some_changes(600)
        await world.lane.until_durable()
        world.home.bucket.is_away = True
        (warning,) = await world.try_to_settle()
        assert "tried again" in warning
        assert world.lane._state.volumes == []
        world.home.bucket.is_away = False
        await world.settle()
        assert world.lane._state.volumes
        await world.check()
        await world.lane.close()

    run(Random(1), alone(live()))


def test_slots_stay_until_it_is_durable_where_their_data_lies() -> None:
    """Rule 31, through settling: the frame that names a volume never lands, and another leads."""

    async def live() -> None:
        world = World(5)
        await world.lead()
        await world.some_changes(600)
        await world.lane.until_durable()
        store = world.home.store
        created = store.create

        async def create(key: str, parts: Sequence[Buffer]) -> None:
            if key.startswith("j/") and world.home.keys("vol/"):
                # What is stored of the journal behind the volume never arrives.
                await asyncio.Event().wait()
            await created(key, parts)

        store.create = create  # type: ignore[method-assign]
        settling = asyncio.ensure_future(world.try_to_settle())
        await asyncio.sleep(120)
        settling.cancel()
        assert world.home.keys("vol/")
        world.home.kill()
        await world.lead()
        await world.check()
        await world.settle()
        await world.check()

    run(Random(5), alone(live()))


def test_a_leader_that_was_fenced_removes_no_volume_of_who_leads_now() -> None:
    """Rule 35: it does not know what was named since."""

    async def live() -> None:
        world = World(2)
        await world.lead()
        await world.some_changes(500)
        await world.settle()
        fenced = world.lane
        await world.lead()
        await world.some_changes(500)
        await world.settle()
        before = world.home.keys("vol/")
        assert any("-" in key and int(key.split("/")[2].split("-")[0]) > 0 for key in before)
        assert fenced.is_leading, "it has not heard yet"
        await fenced.settling._store.tidy()
        assert world.home.keys("vol/") == before
        await world.check()

    run(Random(2), alone(live()))


def test_small_volumes_become_one_and_what_goes_by_itself_is_settled_all_the_same() -> None:
    async def live() -> None:
        settling = SETTINGS.settling._replace(
            journal_bytes_min=STRETCH_BYTES,
            volume_bytes=16 * STRETCH_BYTES,
            small_share=4,
            joined_share=2,
            leaves_what_dies=False,
        )
        world = World(4)
        world.home = SlotHome(world.rng, SETTINGS._replace(settling=settling))
        await world.lead()
        world.lane.settling.will_die = always
        world.create("a")
        counts = []
        for _ in range(12):
            for _ in range(100):
                world.produce("a")
            await world.lane.until_durable()
            await world.settle()
            counts.append(len(world.lane._state.volumes))
        await world.check()
        assert max(counts) > 4
        assert any(later < earlier - 3 for earlier, later in itertools.pairwise(counts))

    run(Random(4), alone(live()))

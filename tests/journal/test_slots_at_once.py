"""Several slots are created at once while much waits, and land in any order: what holds then."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from semel.errors import ConfigError, CorruptJournal
from semel.journal.seam import JournalAbandoned
from semel.journal.slots import keys
from semel.journal.slots.entries import Kind, decode
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.opening import NotTaken
from semel.journal.slots.settings import PUTS_AT_ONCE_MAX, SlotSettings
from semel.store.seam import ObjectExists, ObjectMissing, StoreAway
from semel.types import Buffer
from support import seeded_loop
from support.slot_store import SlotStore
from support.slot_world import (
    SETTINGS,
    Leader,
    StandBy,
    lead,
    randomness,
    run,
    say,
    stored_entry,
)

LARGE = b"x" * 2048
"""One of them is worth a PUT beside others, and two are no slot."""
MANY = replace(SETTINGS, ahead_bytes=2048)
PUT_S = 0.05


def numbered(number: int) -> bytes:
    return b"%d:" % number + LARGE


async def lead_on(store: SlotStore, node: int = 1) -> Leader:
    """So far behind the fence that several may be under way."""
    lane = await lead(store, node, MANY)
    await say(lane, *(b"first" for _ in range(PUTS_AT_ONCE_MAX)))
    return lane


def under_way(store: SlotStore, calls: int) -> list[int]:
    """The slots of the creates since so many calls."""
    return [int(key[-12:]) for verb, key in store.calls[calls:] if verb == "create"]


class HeldBack:
    """Some creates of one node arrive when they are let, or never, and it hears nothing."""

    def __init__(self, store: SlotStore, node: int = 1) -> None:
        self._store = store
        self._node = node
        self._kept: dict[int, bytes] = {}
        self._create = store.create
        self.slots: set[int] = set()
        self.just_before: set[int] = set()
        """What is kept for these slots lands there just before what another creates."""
        store.create = self._held  # type: ignore[method-assign]

    async def _held(self, key: str, parts: Sequence[Buffer]) -> None:
        stored, slot = b"".join(parts), int(key[-12:])
        is_slot = key.startswith("j/")
        if is_slot and slot in self.slots and decode(stored, key).head.node == self._node:
            self._store.calls.append(("create", key))
            self._kept.setdefault(slot, stored)
            raise StoreAway(key)
        if is_slot and slot in self.just_before:
            self.just_before.remove(slot)
            self.land(slot)
        await self._create(key, parts)

    def land(self, slot: int) -> None:
        self.slots.discard(slot)
        assert self._store.put(keys.slot(0, slot), self._kept.pop(slot))


async def half_landed(store: SlotStore) -> tuple[Leader, HeldBack, int]:
    """A leader whose next slot is a hole, with three of its entries behind that."""
    lane = await lead_on(store)
    held, hole = HeldBack(store), lane.journal.slot
    held.slots.add(hole)
    store.delay_s = lambda: PUT_S
    for number in range(4):
        lane.append(numbered(number))
    await seeded_loop.elapse(1)
    store.delay_s = lambda: 0.0
    assert [slot for slot in range(hole, hole + 5) if keys.slot(0, slot) in store.objects] == [
        hole + 1,
        hole + 2,
        hole + 3,
    ]
    return lane, held, hole


# When there are several.


def test_while_much_waits_several_slots_are_created_at_once() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead_on(store)
        store.delay_s = lambda: PUT_S
        calls, slot = len(store.calls), lane.journal.slot
        for number in range(10):
            end = lane.append(numbered(number))
        await seeded_loop.elapse(PUT_S / 2)
        assert under_way(store, calls) == list(range(slot, slot + MANY.puts_at_once))
        assert await lane.durable(end)
        assert not lane.failures
        await lane.journal.close()
        assert (await lead(store)).payloads[PUTS_AT_ONCE_MAX:] == list(map(numbered, range(10)))

    run(main())


def test_what_comes_in_trickles_has_one_put_under_way() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead_on(store)
        store.delay_s = lambda: PUT_S
        calls = len(store.calls)
        for number in range(20):
            end = lane.append(b"%d" % number)
            waiting = asyncio.ensure_future(lane.durable(end))
            await seeded_loop.elapse(PUT_S / 20)
        assert len(under_way(store, calls)) == 1
        assert await waiting
        assert len(under_way(store, calls)) == 2

    run(main())


def test_right_behind_a_fence_there_is_one_put_under_way() -> None:
    """As what a leader before has left may stand there."""

    async def main() -> None:
        store = SlotStore()
        await lead(store, settings=MANY)
        lane = await lead(store, 2, MANY)
        store.delay_s = lambda: PUT_S
        calls = len(store.calls)
        for number in range(4):
            end = lane.append(numbered(number))
        await seeded_loop.elapse(PUT_S)
        assert len(under_way(store, calls)) == 1
        assert await lane.durable(end)


def test_where_nobody_has_led_before_several_are_begun_from_the_first_on() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store, settings=MANY)
        store.delay_s = lambda: PUT_S
        calls = len(store.calls)
        for number in range(4):
            lane.append(numbered(number))
        await seeded_loop.elapse(PUT_S / 2)
        assert len(under_way(store, calls)) == 4
        assert await lane.durable(lane.journal.end)

    run(main())


def test_no_settings_allow_more_than_a_successor_reckons_with() -> None:
    with pytest.raises(ConfigError, match="at once"):
        SlotSettings(puts_at_once=PUTS_AT_ONCE_MAX + 1)
    with pytest.raises(ConfigError, match="at once"):
        SlotSettings(puts_at_once=0)


# A hole.


def test_nothing_behind_a_hole_is_confirmed_before_it_is_filled() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead_on(store)
        kept: list[int] = []
        lane.journal._writer.on_confirmed = lambda slot, content: kept.append(slot)
        held, hole = HeldBack(store), lane.journal.slot
        held.slots.add(hole)
        store.delay_s = lambda: PUT_S
        told: list[int] = []
        ends = [lane.append(numbered(number)) for number in range(4)]
        for number, end in enumerate(ends):
            lane.journal.when_durable(end, _adding(told, number))
        durable = lane.journal.durable
        lane.journal.barrier(_adding(told, 99))
        await seeded_loop.elapse(1)
        assert keys.slot(0, hole + 3) in store.objects
        assert (told, kept, lane.journal.durable) == ([], [], durable)
        assert lane.journal.slot == hole
        checkpoint = asyncio.ensure_future(lane.journal.checkpoint_now())
        await seeded_loop.elapse(1)
        assert not store.keys("ck/"), "it would cover the hole"
        held.land(hole)
        await checkpoint
        assert told == [0, 1, 2, 3, 99]
        assert kept == [hole, hole + 1, hole + 2, hole + 3]
        assert lane.journal.durable == ends[-1]

    run(main())


def _adding(told: list[int], number: int) -> Callable[[], None]:
    return lambda: told.append(number)


def test_a_seal_waits_for_the_hole() -> None:
    async def main() -> None:
        store = SlotStore()
        lane, held, hole = await half_landed(store)
        handing_over = asyncio.ensure_future(lane.journal.hand_over(2))
        await seeded_loop.elapse(1)
        assert not handing_over.done()
        held.land(hole)
        await handing_over
        assert [entry.head.kind for entry in store.entries()][-1] is Kind.SEAL
        await lane.journal.close()
        new = await lead(store, 2)
        assert not new.journal.may_miss_acknowledged
        assert new.payloads[PUTS_AT_ONCE_MAX:] == list(map(numbered, range(4)))

    run(main())


def test_who_follows_waits_at_the_hole_and_reads_on_when_it_is_filled() -> None:
    async def main() -> None:
        store = SlotStore()
        stand_by = StandBy(store, MANY)
        await stand_by.begin()
        _, held, hole = await half_landed(store)
        for _ in range(3):
            await asyncio.wait_for(stand_by.look(), 10)
        assert stand_by.follower.slot == hole
        assert len(stand_by.payloads) == PUTS_AT_ONCE_MAX
        held.land(hole)
        await stand_by.look()
        assert stand_by.follower.slot == hole + 4

    run(main())


def test_who_follows_comes_to_the_end_of_a_lane_whose_leader_goes_on() -> None:
    """Of a store that takes its time for each call, also for reading."""

    async def main() -> None:
        store = SlotStore()
        lane = await lead_on(store)
        store.delay_s = lambda: PUT_S

        async def go_on() -> None:
            number = 0
            while True:
                number += 1
                await lane.durable(lane.append(numbered(number)))

        async with asyncio.TaskGroup() as tasks:
            going = [tasks.create_task(go_on()) for _ in range(2 * PUTS_AT_ONCE_MAX)]
            stand_by = StandBy(store, MANY)
            await stand_by.begin()
            await seeded_loop.elapse(20 * PUT_S)
            for _ in range(3):
                await asyncio.wait_for(stand_by.look(), 60)
                assert lane.journal.slot - stand_by.follower.slot <= 2 * PUTS_AT_ONCE_MAX
            for each in going:
                each.cancel()
        assert not lane.failures

    run(main())


def test_whoever_takes_the_lane_fences_the_hole_and_what_lies_behind_is_void() -> None:
    async def main() -> None:
        store = SlotStore()
        old, _, hole = await half_landed(store)
        new = await asyncio.wait_for(lead(store, 2, MANY), 10)
        fence = decode(store.objects[keys.slot(0, hole)], "fence").head
        assert (fence.kind, fence.node) == (Kind.FENCE, 2)
        assert len(new.payloads) == PUTS_AT_ONCE_MAX, "nobody was told of what lies behind"
        await seeded_loop.elapse(5)
        assert [type(failure) for failure in old.failures] == [JournalAbandoned]
        await say(new, b"a", b"b")
        assert new.journal.slot == hole + 6, "three slots were passed over"
        assert not new.failures
        await new.journal.checkpoint_now()
        new.journal.release_before(new.journal.end)
        await seeded_loop.elapse(1)
        left = [int(key[-12:]) for key in store.keys("j/")]
        assert left == [0, *range(hole, hole + 4)], "fences, and what is void"
        last = await lead(store, 3)
        assert last.payloads[PUTS_AT_ONCE_MAX:] == [b"a", b"b"]

    run(main())


@pytest.mark.parametrize("behind", [1, 2, PUTS_AT_ONCE_MAX])
def test_a_slot_that_was_there_is_no_hole(behind: int) -> None:
    """What was acknowledged behind it would be void: who finds it gone stops instead."""

    async def main() -> None:
        store = SlotStore()
        lane = await lead_on(store)
        await say(lane, *(b"behind" for _ in range(behind)))
        stand_by = StandBy(store, MANY)
        gone = keys.slot(0, lane.journal.slot - behind - 1)
        del store.objects[gone]
        with pytest.raises(CorruptJournal, match=f"{gone} is gone, and was there"):
            await lead(store, 2, MANY)
        await stand_by.begin()
        with pytest.raises(CorruptJournal, match="is gone, and was there"):
            await stand_by.look()

    run(main())


def test_behind_a_stray_fence_a_hole_is_not_taken_for_a_lost_slot() -> None:
    """Who has read a fence that was left in a collected slot takes what stands behind it for void,
    and so knows less to be durable than its writers."""

    async def main() -> None:
        store = SlotStore()
        lane = await lead_on(store)
        stray = keys.slot(0, lane.journal.slot)
        stale = StandBy(store, MANY)
        await stale.begin()
        await stale.look()
        store.objects[stray] = stored_entry(Kind.FENCE, 1)
        await stale.look()
        assert stale.follower.epoch == 1
        del store.objects[stray]
        await say(lane, b"one", b"two", b"three")
        await lane.journal.checkpoint_now()
        held, hole = HeldBack(store), lane.journal.slot
        held.slots.add(hole)
        store.delay_s = lambda: PUT_S
        for number in range(4):
            lane.append(numbered(number))
        await seeded_loop.elapse(1)
        store.delay_s = lambda: 0.0
        assert await stale.look(), "it begins anew"
        assert b"two" in stale.payloads

    run(main())


def test_a_slot_that_comes_in_while_it_is_looked_for_is_no_damage() -> None:
    """It is read as free, then lands, and what its leader stores next says that it was there."""

    async def main() -> None:
        store = SlotStore()
        lane = await lead_on(store)
        await say(lane, b"one", b"two")
        missed = keys.slot(0, lane.journal.slot - 2)
        get, missed_once = store.get, [missed]

        async def late(key: str) -> bytes:
            if key in missed_once:
                missed_once.remove(key)
                raise ObjectMissing(key)
            return await get(key)

        store.get = late  # type: ignore[method-assign]
        new = await lead(store, 2, MANY)
        assert not missed_once
        assert new.payloads[-2:] == [b"one", b"two"]

    run(main())


def test_a_look_passes_over_what_is_void() -> None:
    async def main() -> None:
        store = SlotStore()
        _, _, hole = await half_landed(store)
        new = await lead(store, 2, MANY)
        passed = asyncio.Event()
        new.journal.barrier(passed.set)
        await asyncio.wait_for(passed.wait(), 1)
        assert new.journal.slot == hole + 4
        later = await lead(store, 3, MANY)
        refused = asyncio.Event()
        new.journal.barrier(refused.set)
        await seeded_loop.elapse(5)
        assert not refused.is_set(), "another leads"
        assert new.failures
        assert not later.failures

    run(main())


@pytest.mark.parametrize("behind", [1, 2, 3])
def test_what_lands_late_in_a_slot_of_the_successor_is_passed_over(behind: int) -> None:
    """Its PUT finds it there, and has none of its own behind it."""

    async def main() -> None:
        store = SlotStore()
        old = await lead_on(store)
        held, hole = HeldBack(store), old.journal.slot
        held.slots |= set(range(hole, hole + 4))
        for number in range(4):
            old.append(numbered(number))
        await seeded_loop.elapse(0.2)
        stand_by = StandBy(store, MANY)
        await stand_by.begin()
        new = await lead(store, 2, MANY)
        held.just_before.add(hole + behind)
        said = list(map(numbered, range(3 * PUTS_AT_ONCE_MAX)))
        for each in said:
            end = new.append(each)
        assert await new.durable(end), new.failures
        assert not held.just_before
        await stand_by.look()
        for reader in (stand_by, await lead(store, 3)):
            assert reader.payloads[PUTS_AT_ONCE_MAX:] == said

    run(main())


def test_a_foreign_entry_ends_a_leader_wherever_it_is_found_first() -> None:
    """Its own lie on both sides of the fence, and only what was confirmed was told."""

    async def main() -> None:
        store = SlotStore()
        old = await lead_on(store)
        held, slot = HeldBack(store), old.journal.slot
        held.slots |= {slot, slot + 1}
        told: list[int] = []
        for number in range(3):
            old.journal.when_durable(old.append(numbered(number)), _adding(told, number))
        await seeded_loop.elapse(0.01)
        held.land(slot)
        new = await lead(store, 2, MANY)
        await seeded_loop.elapse(5)
        assert [type(failure) for failure in old.failures] == [JournalAbandoned]
        assert told in ([], [0])
        assert new.payloads[PUTS_AT_ONCE_MAX:] == [numbered(0)], "it counts"
        await say(new, b"a")
        assert not new.failures

    run(main())


# Fences.


def test_a_fence_gives_way_to_what_is_void_and_stands_behind_it() -> None:
    async def main() -> None:
        store = SlotStore()
        await half_landed(store)
        first = await lead(store, 2, MANY)
        stand_by = StandBy(store, MANY)
        await stand_by.begin()
        await stand_by.look()
        await first.journal.close(successor=3)
        # It knows of the seal, and of nothing behind it.
        while not stand_by.follower.is_sealed:
            await stand_by.look()
        new = await stand_by.follower.take(3, randomness(3), only_silent=True)
        assert not new.may_miss_acknowledged
        await new.close()

    run(main())


def test_a_fence_that_finds_a_void_entry_there_tries_the_next_slot() -> None:
    async def main() -> None:
        store = SlotStore()
        old = await lead_on(store)
        held, hole = HeldBack(store), old.journal.slot
        held.slots |= {hole, hole + 1, hole + 2}
        for number in range(3):
            old.append(numbered(number))
        await seeded_loop.elapse(0.2)
        stand_by = StandBy(store, MANY)
        await stand_by.begin()
        first = await lead(store, 2, MANY)
        await stand_by.look()
        await first.journal.hand_over(3)
        while not stand_by.follower.is_sealed:
            await stand_by.look()
        # Behind the seal, in the very slot where the fence would be.
        assert stand_by.follower.slot == hole + 2
        held.just_before.add(hole + 2)
        new = await stand_by.take(3)
        assert not held.just_before
        assert decode(store.objects[keys.slot(0, hole + 3)], "fence").head.node == 3
        assert not new.journal.may_miss_acknowledged
        await say(new, b"a")

    run(main())


def test_what_is_void_does_not_tell_that_others_have_gone_on() -> None:
    async def main() -> None:
        store = SlotStore()
        old = await lead_on(store)
        held, hole = HeldBack(store), old.journal.slot
        held.slots |= {hole, hole + 1}
        for number in range(2):
            old.append(numbered(number))
        await seeded_loop.elapse(0.2)
        first = await lead(store, 2, MANY)
        stand_by = StandBy(store, MANY)
        await stand_by.begin()
        while stand_by.follower.slot == 0:
            await stand_by.look()
        assert stand_by.follower.slot == hole + 1
        first.journal.abandon()
        held.land(hole + 1)
        silent = await stand_by.follower.take(3, randomness(3), only_silent=True)
        assert decode(store.objects[keys.slot(0, hole + 2)], "fence").head.node == 3
        await silent.close()

    run(main())


def test_a_fence_in_a_collected_slot_that_holds_what_does_not_follow_is_not_taken() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store, 1, MANY)
        stale = StandBy(store, MANY)
        await stale.begin()
        await say(lane, b"a", b"b", b"c")
        await lane.journal.checkpoint_now()
        await say(lane, b"d")
        lane.journal.release_before(lane.journal.end)
        await seeded_loop.elapse(1)
        slot = stale.follower.slot
        # What was sent for a later slot has come here by no way that there is; it tells all the
        # same that this is no slot to lead from.
        misplaced = store.first[keys.slot(0, slot + 2)]
        create = store.create

        async def taken(key: str, parts: Sequence[Buffer]) -> None:
            if key == keys.slot(0, slot):
                store.objects.setdefault(key, misplaced)
                raise ObjectExists(key)
            await create(key, parts)

        async def nothing(folder: str, behind: str = "") -> list:  # type: ignore[type-arg]
            return [] if folder.startswith("j/") else await listed(folder, behind)

        listed = store.list
        store.list = nothing  # type: ignore[method-assign]
        store.create = taken  # type: ignore[method-assign]
        with pytest.raises(NotTaken, match="was collected"):
            await stale.follower.take(2, randomness(2))
        assert not lane.failures

    run(main())


def test_a_node_that_reads_all_from_the_store_takes_a_hole_for_its_end() -> None:
    async def main() -> None:
        store = SlotStore()
        await half_landed(store)
        taking = SlotJournal.open(store, 0, 5, randomness(5), MANY)
        journal = await asyncio.wait_for(taking, 10)
        assert len(list(journal.replay())) == PUTS_AT_ONCE_MAX
        await journal.close()

    run(main())

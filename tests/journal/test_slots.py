"""The rules of slots where a store is needed to break them: each by the case made for it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from semel.errors import JournalFull
from semel.journal.frames import HEADER_SIZE
from semel.journal.seam import JournalAbandoned
from semel.journal.slots import keys
from semel.journal.slots.entries import Kind, decode, successor_of
from semel.journal.slots.following import Follower
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.opening import NotTaken
from semel.journal.slots.settings import SlotSettings
from support import seeded_loop
from support.slot_store import Fault, SlotStore
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


def once(verb: str, key: str, fault: Fault) -> Callable[[str, str], Fault]:
    """That call fails so for the first time it is made."""
    left = [fault]

    def find(its_verb: str, its_key: str) -> Fault:
        return left.pop() if left and (its_verb, its_key) == (verb, key) else Fault.NONE

    return find


def payloads_of(store: SlotStore) -> list[list[bytes]]:
    """Of each data slot, what its frames say."""
    found = []
    for entry in store.entries():
        if entry.head.kind is Kind.DATA:
            body, payloads = bytes(entry.body), []
            while body:
                size = int.from_bytes(body[8:12], "little")
                payloads.append(body[HEADER_SIZE : HEADER_SIZE + size])
                body = body[HEADER_SIZE + size :]
            found.append(payloads)
    return found


def barrier(lane: Leader) -> asyncio.Event:
    passed = asyncio.Event()
    lane.journal.barrier(passed.set)
    return passed


# Rule 15.


@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.NONE])
def test_whatever_becomes_of_a_put_its_frames_are_there_once(fault: Fault) -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        store.fault = once("create", keys.slot(0, 2), fault)
        await say(lane, b"a", b"b", b"c")
        await seeded_loop.elapse(10)
        assert payloads_of(store) == [[b"a"], [b"b"], [b"c"]]
        assert not lane.failures
        await lane.journal.close()
        assert (await lead(store)).payloads == [b"a", b"b", b"c"]

    run(main())


def test_a_foreign_entry_in_its_slot_ends_a_leader_and_nobody_is_answered() -> None:
    async def main() -> None:
        store = SlotStore()
        old = await lead(store)
        await say(old, b"a")
        new = await lead(store, node=2)
        assert not await old.durable(old.append(b"lost"))
        assert [type(failure) for failure in old.failures] == [JournalAbandoned]
        with pytest.raises(JournalAbandoned, match="node 2, epoch 1"):
            old.journal.append([b"x"], 1)
        await say(new, b"b")
        await old.journal.close()
        await new.journal.close()
        assert (await lead(store)).payloads == [b"a", b"b"]

    run(main())


def test_batches_fill_while_one_put_is_under_way() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        store.delay_s = lambda: 0.05
        first = asyncio.Event()
        lane.journal.when_durable(lane.append(b"0"), first.set)
        await seeded_loop.elapse(0.01)
        end = [lane.append(b"%d" % number) for number in range(1, 50)][-1]
        await lane.durable(end)
        assert [len(each) for each in payloads_of(store)] == [1, 49]

    run(main())


def test_what_nobody_waits_for_is_not_in_the_way_of_what_comes_next() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        store.delay_s = lambda: 0.05
        lane.append(b"of a transaction")
        await seeded_loop.elapse(0.01)
        assert await lane.durable(lane.append(b"its commit"))
        assert payloads_of(store) == [[b"of a transaction", b"its commit"]]

    run(main())


def test_what_nobody_waits_for_is_stored_after_a_while_or_when_its_slot_is_full() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        lane.append(b"a")
        await seeded_loop.elapse(SETTINGS.flush_interval_ms / 1000 - 0.001)
        assert payloads_of(store) == []
        await seeded_loop.elapse(0.002)
        assert payloads_of(store) == [[b"a"]]
        large = b"x" * (SETTINGS.slot_bytes // 2)
        lane.append(large)
        lane.append(b"b" + large)
        await seeded_loop.elapse(0.001)
        assert payloads_of(store) == [[b"a"], [large]]

    run(main())


# Rule 17.


def test_a_clean_move_keeps_the_term_and_a_kill_does_not() -> None:
    async def main() -> None:
        store = SlotStore()
        first = await lead(store)
        assert (first.journal.epoch, first.journal.term) == (0, 0)
        await say(first, b"a")
        await first.journal.close(successor=2)
        seal = store.entries()[-1]
        assert (seal.head.kind, successor_of(seal)) == (Kind.SEAL, 2)
        second = await lead(store, node=2)
        assert (second.journal.epoch, second.journal.term) == (1, 0)
        assert not second.journal.may_miss_acknowledged
        third = await lead(store, node=3)
        assert (third.journal.epoch, third.journal.term) == (2, 2)
        assert third.journal.may_miss_acknowledged

    run(main())


def test_who_hands_over_has_all_durable_answers_whoever_waits_and_names_a_successor() -> None:
    async def scenario() -> None:
        store = SlotStore()
        store.delay_s = lambda: 0.03
        first = await lead(store, 1)
        await say(first, b"a")
        end = first.append(b"b")
        told: list[str] = []
        first.journal.when_durable(end, lambda: told.append("durable"))
        # It is asked behind the last PUT, so that only the seal can tell.
        await seeded_loop.elapse(0.01)
        first.journal.barrier(lambda: told.append("alone"))
        handing_over = asyncio.create_task(first.journal.hand_over(2))
        await seeded_loop.elapse(0.001)
        with pytest.raises(JournalAbandoned):
            first.append(b"c")
        await handing_over
        assert told == ["durable", "alone"]
        seal = store.entries()[-1]
        assert (seal.head.kind, successor_of(seal)) == (Kind.SEAL, 2)
        await first.journal.close()
        assert store.entries()[-1] == seal, "it is the last"
        second = await lead(store, 2)
        assert not second.journal.may_miss_acknowledged
        assert second.payloads == [b"a", b"b"]

    run(scenario())


def test_a_barrier_is_not_passed_by_a_seal_that_has_not_landed() -> None:
    async def scenario() -> None:
        store = SlotStore()
        first = await lead(store, 1)
        await say(first, b"a")
        second = await SlotJournal.open(store, 0, 2, randomness("second"), SETTINGS)
        told: list[str] = []
        first.journal.barrier(lambda: told.append("alone"))
        await first.journal.hand_over(3)
        assert told == [], "another leads by now"
        assert first.failures
        await first.journal.close()
        await second.close()

    run(scenario())


def test_nothing_is_appended_behind_a_seal() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        await say(lane, b"a")
        await lane.journal.close()
        with pytest.raises(JournalAbandoned):
            lane.append(b"b")

    run(main())


# Rule 18.


def test_a_zombie_passes_no_barrier() -> None:
    async def main() -> None:
        store = SlotStore()
        old = await lead(store)
        await say(old, b"a")
        assert await asyncio.wait_for(barrier(old).wait(), 1)
        await lead(store, node=2)
        passed = barrier(old)
        await seeded_loop.elapse(5)
        assert not passed.is_set()
        assert [type(failure) for failure in old.failures] == [JournalAbandoned]

    run(main())


def test_a_put_that_landed_before_the_fence_behind_it_proves_nothing() -> None:
    """The answer comes late: by then another leads."""

    async def main() -> None:
        store = SlotStore()
        old = await lead(store)
        answered = asyncio.Event()
        store.fault = once("create", keys.slot(0, 1), Fault.UNHEARD)
        store.gates["get", keys.slot(0, 1)] = answered
        end = old.append(b"a")
        await seeded_loop.elapse(2)
        del store.gates["get", keys.slot(0, 1)]
        await lead(store, node=2)
        passed = barrier(old)
        answered.set()
        assert await old.durable(end), "it is there, and counts"
        await seeded_loop.elapse(5)
        assert not passed.is_set()
        assert old.failures

    run(main())


def test_a_put_into_a_slot_that_was_collected_proves_nothing() -> None:
    async def main() -> None:
        store = SlotStore()
        old = await lead(store)
        answered = asyncio.Event()
        store.fault = once("create", keys.slot(0, 1), Fault.UNHEARD)
        store.gates["get", keys.slot(0, 1)] = answered
        old.append(b"a")
        await seeded_loop.elapse(2)
        del store.gates["get", keys.slot(0, 1)]
        new = await lead(store, node=2)
        await say(new, b"b")
        await new.journal.checkpoint_now()
        new.journal.release_before(new.journal.end)
        await seeded_loop.elapse(1)
        assert keys.slot(0, 1) not in store.objects
        passed = barrier(old)
        answered.set()
        await seeded_loop.elapse(5)
        assert keys.slot(0, 1) in store.objects, "it was put again"
        assert not passed.is_set()
        assert old.failures

    run(main())


def test_a_look_that_was_begun_before_the_request_proves_nothing() -> None:
    async def main() -> None:
        store = SlotStore()
        old = await lead(store)
        await say(old, b"a")
        store.delay_s = lambda: 0.1
        first = barrier(old)
        await seeded_loop.elapse(0.15)
        store.put(keys.slot(0, 2), stored_entry(Kind.FENCE, 1))
        second = barrier(old)
        await seeded_loop.elapse(0.1)
        assert first.is_set(), "the slot was free when it was looked at"
        await seeded_loop.elapse(2)
        assert not second.is_set()
        assert old.failures

    run(main())


def test_one_look_serves_all_who_wait_and_a_later_put_serves_as_well() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        await say(lane, b"a")
        store.calls.clear()
        waiting = [barrier(lane) for _ in range(50)]
        await asyncio.gather(*(each.wait() for each in waiting))
        assert store.calls == [("get", keys.slot(0, 2))]
        store.calls.clear()
        lane.append(b"b")
        await barrier(lane).wait()
        assert store.calls == [("create", keys.slot(0, 2))]

    run(main())


def test_who_has_no_barrier_for_the_detection_time_steps_down() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        store.is_away = True
        passed = barrier(lane)
        await seeded_loop.elapse(5.9)
        assert not lane.failures
        await seeded_loop.elapse(0.2)
        assert [type(failure) for failure in lane.failures] == [JournalAbandoned]
        store.is_away = False
        await seeded_loop.elapse(5)
        assert not passed.is_set()

    run(main())


# Rule 31.


def test_only_data_goes_and_only_behind_a_checkpoint() -> None:
    async def main() -> None:
        store = SlotStore()
        await say(await lead(store), b"a", b"b")
        await (await lead(store, node=2)).journal.close()
        lane = await lead(store, node=3)
        await say(lane, b"c", b"d")
        lane.journal.release_before(lane.journal.end)
        await seeded_loop.elapse(1)
        assert len(payloads_of(store)) == 4
        left = [decode(store.objects[key], key).head.kind for key in store.keys("j/")]
        assert left == [Kind.FENCE, Kind.FENCE, Kind.SEAL, Kind.FENCE, Kind.DATA, Kind.DATA], (
            "the newest checkpoint stands before the last two"
        )
        await lane.journal.checkpoint_now()
        await say(lane, b"e")
        lane.journal.release_before(lane.journal.end)
        await seeded_loop.elapse(1)
        kinds = [decode(store.objects[key], key).head.kind for key in store.keys("j/")]
        assert kinds == [Kind.FENCE, Kind.FENCE, Kind.SEAL, Kind.FENCE, Kind.DATA]
        assert (await lead(store, node=4)).payloads == [b"a", b"b", b"c", b"d", b"e"]

    run(main())


def test_a_fence_in_a_collected_slot_is_given_up() -> None:
    """Whoever looked for checkpoints before there was one finds the first slot free."""

    async def main() -> None:
        store = SlotStore()
        stale = StandBy(store)
        await stale.begin()
        lane = await lead(store)
        await stale.look()
        await say(lane, b"a", b"b")
        await lane.journal.checkpoint_now()
        await say(lane, b"c")
        lane.journal.release_before(lane.journal.end)
        await seeded_loop.elapse(1)
        listed = store.list

        async def of_old(folder: str, behind: str = "") -> list:  # type: ignore[type-arg]
            return [] if folder.startswith("j/") else await listed(folder, behind)

        store.list = of_old  # type: ignore[method-assign]
        with pytest.raises(NotTaken, match="slot 1 was collected"):
            await stale.take(2)
        await say(lane, b"d")
        assert not lane.failures, "nobody has taken the lane"
        store.list = listed  # type: ignore[method-assign]
        assert await stale.look(), "it has to begin anew"
        await stale.look()
        assert stale.payloads == [b"a", b"b", b"c", b"d"]

    run(main())


def test_a_stray_fence_that_hides_a_hole_is_seen_through() -> None:
    """It reads slot 1 before it is collected, a stray fence in 2, and the rest as it is."""

    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        await say(lane, b"a", b"b", b"c")
        real = store.objects.pop(keys.slot(0, 2))
        store.objects[keys.slot(0, 2)] = stored_entry(Kind.FENCE, 0)
        stale = StandBy(store)
        await stale.begin()
        # A fence of epoch 0 does not count; the data behind does not follow, or seems void.
        store.objects[keys.slot(0, 2)] = stored_entry(Kind.FENCE, 5)
        await stale.look()
        assert stale.payloads == [b"a"]
        store.objects[keys.slot(0, 2)] = real
        await lane.journal.checkpoint_now()
        lane.journal.release_before(lane.journal.end)
        await seeded_loop.elapse(1)
        new = await stale.take(2)
        assert new.payloads == [b"a", b"b", b"c"]
        assert not new.journal.is_continued
        assert new.journal.epoch == 6

    run(main())


# Following.


def test_taking_over_replays_only_what_is_new() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        stand_by = StandBy(store)
        await stand_by.begin()
        for number in range(300):
            await say(lane, b"%d" % number)
            if number % 7 == 0:
                await stand_by.look()
            if number % 100 == 50:
                await lane.journal.checkpoint_now()
        known = len(stand_by.payloads)
        await lane.journal.close(successor=2)
        new = await stand_by.take(2)
        assert new.journal.is_continued
        assert new.known_count == known > 290
        assert new.payloads == [b"%d" % number for number in range(300)]
        assert new.journal.term == 0
        await say(new, b"on")
        await new.journal.close()
        assert (await lead(store)).payloads[-2:] == [b"299", b"on"]

    run(main())


def test_a_follower_whose_slot_was_collected_begins_anew() -> None:
    """Rule 32."""

    async def main() -> None:
        store = SlotStore()
        stand_by = StandBy(store)
        await stand_by.begin()
        lane = await lead(store)
        await stand_by.look()
        await say(lane, b"a", b"b")
        await lane.journal.checkpoint_now()
        lane.journal.release_before(lane.journal.end)
        await seeded_loop.elapse(1)
        began = 0
        for _ in range(12):
            began += await stand_by.look()
            await seeded_loop.elapse(0.5)
        assert began == 1
        assert stand_by.payloads == [b"a", b"b"]

    run(main())


def test_a_stretch_that_is_full_with_a_checkpoint_has_no_index_by_that() -> None:
    """It is sealed with the next frame, whose leader may die before the next checkpoint."""

    async def main() -> None:
        store = SlotStore()
        settings = replace(SETTINGS, stretch_bytes=4096)
        stand_by = StandBy(store, settings)
        await stand_by.begin()
        lane = await lead(store, settings=settings)
        while lane.journal.end < settings.stretch_bytes:
            await say(lane, b"x" * 500)
        full = lane.journal.end
        await lane.journal.checkpoint_now()
        await say(lane, b"the next")
        await stand_by.look()
        assert not await stand_by.follower.confirm()
        new = await stand_by.take(2)
        assert new.journal.is_continued
        await say(new, b"more")
        await new.journal.checkpoint_now()
        assert keys.index_part(keys.index(0, 0, full), 0) in store.objects

    run(main())


def test_an_outage_of_the_store_is_not_the_silence_of_a_leader() -> None:
    """Rule 33."""

    async def main() -> None:
        store = SlotStore()
        await lead(store)
        stand_by = StandBy(store)
        await stand_by.begin()

        async def watch(count: int) -> float:
            for _ in range(count):
                await stand_by.look()
                await seeded_loop.elapse(1)
            return stand_by.follower.silence.lasted_s

        assert 3 <= await watch(6) < 6
        store.is_away = True
        assert await watch(20) == 0
        store.is_away = False
        assert await watch(3) < 3, "all wait anew"

    run(main())


# Size.


def test_the_largest_frame_has_a_slot_to_itself_and_none_is_larger_than_it_may_be() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        for size in (1, lane.journal.limits.payload_bytes_max, 1):
            lane.append(b"x" * size)
        assert await lane.durable(lane.journal.end)
        sizes = {len(stored) for key, stored in store.objects.items() if key.startswith("j/")}
        assert max(sizes) == SETTINGS.slot_bytes

    run(main())


# Memory.


def test_what_is_unconfirmed_is_bounded_while_the_store_is_away_and_all_goes_on_after() -> None:
    async def main() -> None:
        store = SlotStore()
        lane = await lead(store)
        store.is_away = True
        headroom = lane.journal.limits.headroom
        while lane.journal.room(headroom) >= 1000:
            lane.append(b"x" * 1000)
        with pytest.raises(JournalFull, match="has not confirmed"):
            lane.append(b"x" * 1000)
        await seeded_loop.elapse(1)
        was_short = lane.journal.is_short_of_room
        assert was_short
        count = len(lane.payloads)
        assert 0 <= SETTINGS.unconfirmed_bytes - count * 1032 - headroom < 1032
        lane.append(b"end", kept_size=0)
        assert lane.journal.room(0) > 0
        store.is_away = False
        assert await lane.durable(lane.journal.end)
        assert not lane.journal.is_short_of_room
        await say(lane, b"y")
        assert len(lane.warnings) == 1
        await lane.journal.close()
        assert len((await lead(store)).payloads) == count + 2

    run(main())


def test_old_positions_are_read_by_range_and_then_held() -> None:
    async def main() -> None:
        store = SlotStore()
        settings = SlotSettings(tail_bytes=0, slot_bytes=4096, unconfirmed_bytes=2**16)
        journal = await SlotJournal.open(store, 0, 1, randomness(1), settings)
        lane = Leader(journal)
        lane.start()
        await say(lane, *(b"%d" % number * 50 for number in range(20)))
        extents = journal.index.extents(0, 0, 20, 2**20)
        assert journal.read_now(extents) is None
        assert [bytes(each) for each in await journal.read_all(extents)] == lane.payloads
        now = journal.read_now(extents)
        assert now is not None
        assert [bytes(each) for each in now] == lane.payloads
        await journal.checkpoint_now()
        journal.release_before(journal.end)
        with pytest.raises(FileNotFoundError):
            await journal.read_all(extents)
        store.is_away = True
        unread = journal.append([b"z"], 1)
        assert bytes(await journal.read(unread, 1)) == b"z", "it is nowhere but here"

    run(main())


def test_a_stretch_can_be_ended_before_it_is_full() -> None:
    async def main() -> None:
        lane = await lead(SlotStore())
        assert not lane.journal.roll(0), "there is nothing in it"
        await say(lane, b"a", b"b")
        end = lane.journal.end
        assert lane.journal.roll(0)
        await lane.journal.checkpoint_now()
        assert list(lane.journal.sealed()) == [(0, end)]
        assert lane.journal.held_from <= end

    run(main())


def test_a_standby_asks_little_of_the_store_and_a_successor_still_less() -> None:
    async def main() -> None:
        store = SlotStore()
        first = await lead(store)
        standby = StandBy(store)
        await standby.begin()
        await standby.look()
        store.calls.clear()
        for payload in (b"a", b"b", b"c"):
            await say(first, payload)
            await standby.look()
        asked = [verb for verb, _ in store.calls if verb != "create"]
        assert asked == ["get"] * 6, "what is there, and that nothing is behind it"
        await first.journal.hand_over(2)
        store.calls.clear()
        await standby.look()
        await standby.follower.take(2, randomness(2), only_silent=True)
        assert [verb for verb, _ in store.calls] == ["get", "create", "list"], (
            "the seal, the fence, and that no checkpoint is beyond it"
        )

    run(main())


def test_who_takes_a_silent_lane_only_leaves_it_to_whoever_was_faster() -> None:
    async def main() -> None:
        store = SlotStore()
        gone = await lead(store)
        late, early = StandBy(store), StandBy(store)
        await gone.journal.close()
        for standby in (late, early):
            await standby.begin()
            await standby.look()
        new = await early.take(2)
        with pytest.raises(NotTaken, match=r"others have gone on|went to node 2"):
            await late.follower.take(3, randomness(3), only_silent=True)
        await say(new, b"a")
        assert not new.failures

    run(main())


# A store that is in trouble.


def test_who_stands_by_says_once_that_the_store_does_not_answer() -> None:
    async def scenario() -> None:
        store = SlotStore()
        await lead(store, 1)
        follower = Follower(store, 0, SETTINGS)
        said: list[str] = []
        follower.on_warning = said.append
        await follower.begin()
        for _ in range(2):
            store.is_away = True
            for _ in range(3):
                await follower.look()
                list(follower.replay())
            store.is_away = False
            await follower.look()
            list(follower.replay())
        assert said == ["the store does not answer, which is tried again: get"] * 2

    run(scenario())

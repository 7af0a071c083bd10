"""The store of the simulator: what goes wrong on the way, by seed, and is counted."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from semel.store.in_memory import BAD_DAY, Bucket, Chances, MemoryStore
from semel.store.seam import ObjectExists, ObjectMissing, StoreAway, StoreError, StoreRefused
from semel.verify.world.loop import Process, simulate
from support.seeded_loop import run


def only(**chances: float) -> Callable[[], MemoryStore]:
    return lambda: MemoryStore(Bucket(), Random(0), Chances(**chances))


def test_what_is_lost_is_never_done() -> None:
    async def scenario(store: MemoryStore) -> None:
        with pytest.raises(StoreAway):
            await store.create("a/1", [b"x"])
        await asyncio.sleep(1_000)
        assert store.bucket.objects == {}
        assert store.bucket.counts == {"lost": 1}

    run(Random(0), scenario(only(lost=1.0)()))


def test_who_is_turned_away_hears_it_at_once() -> None:
    async def scenario(store: MemoryStore) -> None:
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        with pytest.raises(StoreAway, match="patience"):
            await store.create("a/1", [b"x"])
        assert loop.time() - start_s < store.chances.timeout_s
        assert store.bucket.objects == {}

    run(Random(0), scenario(only(throttled=1.0)()))


def test_a_lost_answer_is_no_answer() -> None:
    async def scenario(store: MemoryStore) -> None:
        with pytest.raises(StoreAway):
            await store.create("a/1", [b"x"])
        assert store.bucket.objects == {"a/1": b"x"}

    run(Random(0), scenario(only(unanswered=1.0)()))


def test_what_is_late_is_done_after_its_sender_has_given_up() -> None:
    async def scenario(store: MemoryStore) -> None:
        with pytest.raises(StoreAway):
            await store.create("a/1", [b"x"])
        assert store.bucket.objects == {}
        await asyncio.sleep(store.chances.late_s_max)
        assert store.bucket.objects == {"a/1": b"x"}

    run(Random(0), scenario(only(late=1.0)()))


def test_what_is_late_may_fill_a_key_that_was_deleted_meanwhile() -> None:
    async def scenario(store: MemoryStore) -> None:
        with pytest.raises(StoreAway):
            await store.create("a/1", [b"old"])
        store.chances = Chances()
        await store.create("a/1", [b"new"])
        await store.delete(["a/1"])
        await asyncio.sleep(100)
        assert store.bucket.objects == {"a/1": b"old"}

    run(Random(0), scenario(only(late=1.0)()))


def test_of_a_doubled_create_either_answer_is_heard() -> None:
    async def scenario(store: MemoryStore) -> None:
        told: list[type[StoreError] | None] = []
        for number in range(40):
            try:
                await store.create(f"a/{number}", [b"x"])
                told.append(None)
            except (ObjectExists, StoreAway) as error:
                told.append(type(error))
        assert set(told) == {None, ObjectExists, StoreAway}
        assert store.bucket.counts == {"doubled": 40}
        assert len(store.bucket.objects) == 40

    run(Random(0), scenario(only(doubled=1.0)()))


def test_requests_overtake_each_other() -> None:
    async def scenario(store: MemoryStore) -> None:
        orders = set()
        for number in range(20):
            keys = [f"a/{number}.{part}" for part in range(3)]
            await asyncio.gather(*(store.create(key, [b"x"]) for key in keys))
            orders.add(tuple(key[-1] for key in list(store.bucket.objects)[-3:]))
        assert len(orders) > 3

    run(Random(0), scenario(only(latency_s_mean=0.03)()))


def test_some_of_many_keys_are_deleted_when_nobody_hears_of_it() -> None:
    async def scenario(store: MemoryStore) -> None:
        left = set()
        for _ in range(20):
            store.bucket.objects = {f"a/{number}": b"" for number in range(5)}
            with pytest.raises(StoreAway):
                await store.delete(list(store.bucket.objects))
            left.add(len(store.bucket.objects))
        assert {0, 5} < left

    run(Random(0), scenario(only(unanswered=1.0)()))


def test_what_is_wrong_with_the_bucket_is_heard_by_everybody() -> None:
    async def scenario() -> None:
        bucket = Bucket()
        store = MemoryStore(bucket)
        await store.create("a/1", [b"x"])
        bucket.is_full = True
        with pytest.raises(StoreRefused, match="full"):
            await store.create("a/2", [b"x"])
        await store.delete(["a/1"])
        bucket.is_full, bucket.is_read_only = False, True
        with pytest.raises(StoreRefused, match="read only"):
            await store.create("a/2", [b"x"])
        with pytest.raises(StoreRefused, match="read only"):
            await store.delete(["a/1"])
        assert await store.list("a/") == []
        bucket.is_read_only, bucket.is_away = False, True
        with pytest.raises(StoreAway):
            await store.list("a/")
        assert set(bucket.counts) == {
            "refused: the bucket is full",
            "refused: the bucket is read only",
            "while away",
        }

    run(Random(0), scenario())


def test_one_may_be_cut_off_while_another_is_not() -> None:
    async def scenario() -> None:
        bucket = Bucket()
        one, other = MemoryStore(bucket), MemoryStore(bucket)
        one.is_cut = True
        with pytest.raises(StoreAway):
            await one.create("a/1", [b"x"])
        await other.create("a/1", [b"y"])
        one.is_cut, one.has_expired = False, True
        with pytest.raises(StoreRefused, match="expired"):
            await one.get("a/1")
        assert await other.get("a/1") == b"y"

    run(Random(0), scenario())


def test_an_answer_on_its_way_does_not_reach_who_is_cut_off() -> None:
    async def scenario() -> None:
        class CutsWhoCreates(Bucket):
            def create(self, key: str, content: bytes) -> None:
                super().create(key, content)
                store.is_cut = True

        store = MemoryStore(CutsWhoCreates(), Random(0), Chances(latency_s_mean=0.2))
        with pytest.raises(StoreAway):
            await store.create("a/1", [b"x"])
        assert store.bucket.objects == {"a/1": b"x"}

    run(Random(0), scenario())


def test_a_request_outlives_the_process_that_sent_it() -> None:
    bucket = Bucket()

    async def scenario() -> None:
        process = Process("writer")
        store = MemoryStore(bucket, Random(0), Chances(latency_s_mean=1.0))
        process.start(store.create("a/1", [b"x"]))
        # Sent, and not there yet.
        await asyncio.sleep(0.0001)
        assert bucket.objects == {}
        process.die()
        await asyncio.sleep(60)
        process.bury()

    simulate(0, scenario)
    assert bucket.objects == {"a/1": b"x"}


def life(seed: int) -> tuple[list[str], dict[str, int]]:
    """What three clients hear on a bad day, and what went wrong."""
    heard: list[str] = []
    bucket = Bucket()

    async def client(number: int, random: Random) -> None:
        store = MemoryStore(bucket, random, BAD_DAY)
        for _ in range(100):
            key = f"a/{random.randint(0, 30)}"
            try:
                match random.randrange(4):
                    case 0:
                        await store.create(key, [b"%d" % number])
                    case 1:
                        heard.append(str(await store.get(key)))
                    case 2:
                        await store.delete([key])
                    case _:
                        heard.append(str(await store.list("a/")))
                heard.append(f"{number} done")
            except (ObjectExists, ObjectMissing, StoreAway) as error:
                heard.append(f"{number} {error!r}")

    async def scenario() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(client(number, Random(f"{seed} {number}")))

    simulate(seed, scenario)
    return heard, dict(bucket.counts)


def test_a_seed_gives_one_run() -> None:
    assert life(1) == life(1)
    assert life(1) != life(2)


def test_a_bad_day_has_all_of_it() -> None:
    _, counts = life(1)
    assert {"lost", "throttled", "unanswered", "late", "doubled"} <= set(counts)


@pytest.mark.parametrize("key", ["a b", "A", "a//b", "/a", "a/", "ä", "a#1"])
def test_keys_that_some_store_takes_for_others_are_our_bug(key: str) -> None:
    async def scenario() -> None:
        with pytest.raises(AssertionError):
            await MemoryStore(Bucket()).create(key, [b"x"])

    run(Random(0), scenario())

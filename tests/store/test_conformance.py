"""What every store promises, held against each driver."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from semel.store.retrying import Retrying
from semel.store.seam import (
    CREATE_BYTES_MAX,
    ObjectExists,
    ObjectMissing,
    Store,
    StoreAway,
    StoredObject,
)
from semel.store.settings import StoreSettings
from semel.types import Buffer
from support.stores import BehindServer, Home, InFolder, InMemory, Place

PATIENT = StoreSettings("memory:///", is_ephemeral=True, retry_s=30.0, retry_pause_s=0.001)


@pytest.fixture(params=["memory", "folder", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "memory":
            return InMemory()
        case "folder":
            return InFolder(tmp_path / "store")
        case _:
            return BehindServer()


def test_what_was_created_is_read_by_everybody(place: Place) -> None:
    async def scenario(home: Home) -> None:
        one, other = home.connect(), home.connect()
        await one.create("a/b/1", [b"some", bytearray(b" of "), memoryview(b"these")])
        assert await other.get("a/b/1") == b"some of these"

    place.run(scenario)


def test_nothing_is_something(place: Place) -> None:
    async def scenario(home: Home) -> None:
        store = home.connect()
        await store.create("a/1", [])
        assert await store.get("a/1") == b""
        assert await store.get_range("a/1", 0, 10) == b""
        with pytest.raises(ObjectExists):
            await store.create("a/1", [b"something"])

    place.run(scenario)


def test_a_key_is_created_once(place: Place) -> None:
    async def scenario(home: Home) -> None:
        one, other = home.connect(), home.connect()
        await one.create("a/1", [b"first"])
        for store in (one, other):
            with pytest.raises(ObjectExists):
                await store.create("a/1", [b"second"])
        assert await other.get("a/1") == b"first"

    place.run(scenario)


def test_the_largest_that_may_be_created(place: Place) -> None:
    content = Random(0).randbytes(CREATE_BYTES_MAX)

    async def scenario(home: Home) -> None:
        store = home.connect()
        await store.create("a/1", [content])
        assert await store.get("a/1") == content
        with pytest.raises(ObjectExists):
            await store.create("a/1", [content])

    place.run(scenario)


def test_of_all_who_race_one_wins(place: Place) -> None:
    async def scenario(home: Home) -> None:
        stores = [home.connect() for _ in range(4)]
        for key in (f"a/{number}" for number in range(10)):
            contents = [f"{number} ".encode() * 5_000 for number in range(8)]
            told = await asyncio.gather(
                *(
                    stores[number % 4].create(key, [content])
                    for number, content in enumerate(contents)
                ),
                return_exceptions=True,
            )
            winners = [content for content, error in zip(contents, told, strict=True) if not error]
            assert len(winners) == 1
            assert sum(isinstance(error, ObjectExists) for error in told) == 7
            for store in stores:
                assert await store.get(key) == winners[0]

    place.run(scenario)


def test_what_is_not_there_is_missing(place: Place) -> None:
    async def scenario(home: Home) -> None:
        store = home.connect()
        await store.create("a/1", [b"there"])
        for key in ("a/2", "b/1", "a/1.idx"):
            with pytest.raises(ObjectMissing):
                await store.get(key)
            with pytest.raises(ObjectMissing):
                await store.get_range(key, 0, 1)

    place.run(scenario)


@pytest.mark.parametrize(
    ("start", "size"), [(0, 1), (3, 4), (0, 10), (8, 5), (9, 1), (10, 1), (99, 9)]
)
def test_a_range_ends_where_the_object_ends(place: Place, start: int, size: int) -> None:
    async def scenario(home: Home) -> None:
        store = home.connect()
        await store.create("a/1", [b"0123456789"])
        assert await store.get_range("a/1", start, size) == b"0123456789"[start : start + size]

    place.run(scenario)


def test_a_folder_is_listed_in_order(place: Place) -> None:
    async def scenario(home: Home) -> None:
        store = home.connect()
        names = [f"{number:04}" for number in range(10)]
        for name in Random(1).sample(names, len(names)):
            await store.create(f"a/b/{name}", [name.encode() * int(name)])
        for stranger in ("a/b-c/1", "a/c/1", "b/1", "a/b.x"):
            await store.create(stranger, [b"elsewhere"])
        expected = [StoredObject(f"a/b/{name}", 4 * int(name)) for name in names]
        assert await store.list("a/b/") == expected
        assert await store.list("a/b/", "a/b/0006") == expected[7:]
        assert await store.list("a/b/", "a/b/0006.5") == expected[7:]
        assert await store.list("a/b/", "a/b/9999") == []
        assert [found.key for found in await store.list("a/")] == sorted(
            [*(found.key for found in expected), "a/b-c/1", "a/b.x", "a/c/1"]
        )

    place.run(scenario)


def test_a_folder_without_anything_is_empty(place: Place) -> None:
    async def scenario(home: Home) -> None:
        store = home.connect()
        assert await store.list("a/") == []
        await store.create("b/1", [b""])
        assert await store.list("a/") == []

    place.run(scenario)


def test_what_is_deleted_is_gone(place: Place) -> None:
    async def scenario(home: Home) -> None:
        store = home.connect()
        keys = [f"a/{number:04}" for number in range(50)]
        for key in keys:
            await store.create(key, [b"x"])
        await store.delete(iter(keys[10:]))
        assert [found.key for found in await store.list("a/")] == keys[:10]
        with pytest.raises(ObjectMissing):
            await store.get(keys[10])

    place.run(scenario)


def test_what_is_not_there_is_deleted_as_well(place: Place) -> None:
    async def scenario(home: Home) -> None:
        store = home.connect()
        await store.create("a/2", [b"x"])
        await store.delete(["a/1", "a/2", "a/3"])
        await store.delete(["a/2"])
        await store.delete([])
        assert await store.list("a/") == []

    place.run(scenario)


async def pieces(content: bytes, size: int) -> AsyncIterator[Buffer]:
    for start in range(0, len(content), size):
        await asyncio.sleep(0)
        yield memoryview(content)[start : start + size]


@pytest.mark.parametrize("size", [0, 1_000, 21_000_003])
def test_what_is_large_comes_in_pieces(place: Place, size: int) -> None:
    content = Random(size).randbytes(size)

    async def scenario(home: Home) -> None:
        store = home.connect()
        await store.create_large("vol/1", pieces(content, 1_000_001))
        assert await store.list("vol/") == [StoredObject("vol/1", size)]
        assert await store.get("vol/1") == content
        if size:
            assert await store.get_range("vol/1", size - 5, 100) == content[-5:]

    place.run(scenario)


def test_what_breaks_off_in_the_middle_is_not_there(place: Place) -> None:
    class Broken(Exception):
        """Who made the pieces has failed."""

    async def breaking_off() -> AsyncIterator[Buffer]:
        async for piece in pieces(bytes(20_000_000), 1_000_000):
            yield piece
        raise Broken

    async def scenario(home: Home) -> None:
        store = home.connect()
        with pytest.raises(Broken):
            await store.create_large("vol/1", breaking_off())
        assert await store.list("vol/") == []
        with pytest.raises(ObjectMissing):
            await store.get("vol/1")

    place.run(scenario)


def test_who_gives_up_a_call_harms_no_other(place: Place) -> None:
    async def scenario(home: Home) -> None:
        store = home.connect()
        giving_up = asyncio.ensure_future(store.create("a/1", [b"x" * 100_000]))
        await asyncio.sleep(0)
        giving_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await giving_up
        await store.create("a/2", [b"y"])
        assert await store.get("a/2") == b"y"
        with contextlib.suppress(ObjectMissing):
            assert await store.get("a/1") == b"x" * 100_000

    place.run(scenario)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["memory", "server"])
def test_whatever_is_lost_late_or_doubled_a_key_has_one_content(kind: str, seed: int) -> None:
    """Who was told that it has created a key finds its bytes there, and so do all, for good."""
    random = Random(f"{kind} {seed}")

    async def scenario(home: Home) -> None:
        bare = [home.connect() for _ in range(3)]
        stores: list[Store] = [Retrying(store, PATIENT, Random(random.random())) for store in bare]
        home.worsen()
        tried: dict[str, list[bytes]] = {}
        told: dict[str, bytes] = {}
        for number in range(60):
            key = f"a/{number // 3:04}"
            content = b"%d " % number * random.randint(1, 500)
            tried.setdefault(key, []).append(content)
            try:
                await random.choice(stores).create(key, [content])
                assert key not in told, f"{key} was created twice"
                told[key] = content
            except (ObjectExists, StoreAway):
                pass
            if key in told:
                assert await random.choice(stores).get(key) == told[key]
        seen: dict[str, bytes] = dict(told)
        for key, contents in tried.items():
            try:
                content = await stores[0].get(key)
            except ObjectMissing:
                assert key not in told
            else:
                assert content in contents
                assert seen.setdefault(key, content) == content
        home.heal()
        for found in await stores[0].list("a/"):
            content = await stores[0].get(found.key)
            assert content in tried[found.key]
            assert seen.get(found.key, content) == content

    place: Place = InMemory(seed) if kind == "memory" else BehindServer(seed)
    place.run(scenario)

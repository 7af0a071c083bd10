"""Stores that cannot be trusted with an election, each with one thing wrong, and those that can."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from semel.store.in_memory import BAD_DAY, Bucket, MemoryStore
from semel.store.opening import bare_store
from semel.store.probe import UnfitStore, probe
from semel.store.retrying import Retrying
from semel.store.seam import (
    ObjectExists,
    ObjectMissing,
    Store,
    StoreAway,
    StoredObject,
    StoreRefused,
)
from semel.store.settings import StoreSettings
from semel.testing.fault_server import FaultServer
from semel.testing.s3 import Request
from semel.types import Buffer
from semel.verify.world.loop import SeededRandomness
from support import seeded_loop
from support.stores import BehindServer, Home, InFolder, InMemory, Place, settings_of

RANDOMNESS = SeededRandomness("probe")


class ChecksThenWrites(MemoryStore):
    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        try:
            await self.get(key)
        except ObjectMissing:
            self._replace(key, b"".join(parts))
        else:
            raise ObjectExists(key)


class IgnoresCreateOnly(MemoryStore):
    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._send(lambda: self._replace(key, b"".join(parts)))


class KeepsTheFirstInSilence(MemoryStore):
    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        with contextlib.suppress(ObjectExists):
            await super().create(key, parts)


class WritesThenChecks(MemoryStore):
    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        try:
            await super().create(key, parts)
        except ObjectExists:
            self._replace(key, b"".join(parts))
            raise


class WritesThenChecksInARace(WritesThenChecks):
    """As above, and right as long as there is time between."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket)
        self._under_way = 0

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self._under_way += 1
        try:
            if self._under_way > 1:
                await super().create(key, parts)
            else:
                await MemoryStore.create(self, key, parts)
        finally:
            self._under_way -= 1


class LosesAReadAfterAWrite(MemoryStore):
    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket)
        self._seen: set[str] = set()

    async def get(self, key: str) -> bytes:
        if key not in self._seen:
            self._seen.add(key)
            raise ObjectMissing(key)
        return await super().get(key)


class LosesAReadAfterARace(LosesAReadAfterAWrite):
    async def get(self, key: str) -> bytes:
        if key.endswith("0000"):
            return await MemoryStore.get(self, key)
        return await super().get(key)


class ListsLate(MemoryStore):
    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        return (await super().list(folder, behind))[:-1]


class CountsRangesFromOne(MemoryStore):
    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        return await super().get_range(key, start - 1, size)


class DeletesNothing(MemoryStore):
    async def delete(self, keys: object) -> None: ...


class SaysThatAllExists(MemoryStore):
    """Once it has been asked twice."""

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        if self.bucket.objects:
            raise ObjectExists(key)
        await super().create(key, parts)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ChecksThenWrites, r"of 8 who created .* at once were told that they had"),
        (IgnoresCreateOnly, "only if it is absent, and creates it twice"),
        (KeepsTheFirstInSilence, "only if it is absent, and creates it twice"),
        (WritesThenChecks, "exists, and has replaced it nevertheless"),
        (WritesThenChecksInARace, "is not what that one wrote"),
        (LosesAReadAfterAWrite, "a read right after finds nothing"),
        (LosesAReadAfterARace, "a read right after finds nothing"),
        (ListsLate, "a list right after does not name it"),
        (CountsRangesFromOne, "other bytes for a range"),
        (DeletesNothing, "has deleted .*, and it is still there"),
        (SaysThatAllExists, "that it exists: it does not"),
    ],
)
def test_a_store_that_does_not_keep_its_word_is_refused(kind: type[MemoryStore], said: str) -> None:
    bucket = Bucket()
    with pytest.raises(UnfitStore, match=said):
        seeded_loop.run(Random(0), probe(kind(bucket), RANDOMNESS))
    if kind is not DeletesNothing:
        assert bucket.objects == {}


@pytest.mark.parametrize("kind", ["memory", "folder", "server"])
def test_a_store_that_keeps_its_word_is_taken_and_left_clean(kind: str, tmp_path: Path) -> None:
    async def scenario(home: Home) -> None:
        await home.connect().create("a/1", [b"of another"])
        await probe(home.connect(), RANDOMNESS)
        assert await home.connect().list("probe/") == []
        assert await home.connect().get("a/1") == b"of another"

    places: dict[str, Place] = {
        "memory": InMemory(), "folder": InFolder(tmp_path), "server": BehindServer()
    }  # fmt: skip
    places[kind].run(scenario)


@pytest.mark.parametrize("seed", range(30))
def test_lost_late_and_doubled_answers_are_not_held_against_a_store(seed: int) -> None:
    settings = StoreSettings("memory:///", is_ephemeral=True, retry_s=60.0)

    async def scenario() -> None:
        store = MemoryStore(Bucket(), Random(seed), BAD_DAY)
        await probe(Retrying(store, settings, Random(seed)), RANDOMNESS)

    seeded_loop.run(Random(seed), scenario())


@pytest.mark.parametrize("seed", range(30))
def test_a_store_that_checks_and_then_writes_is_found_out_on_a_bad_day_too(seed: int) -> None:
    settings = StoreSettings("memory:///", is_ephemeral=True, retry_s=60.0)

    async def scenario() -> None:
        store = ChecksThenWrites(Bucket(), Random(seed), BAD_DAY)
        await probe(Retrying(store, settings, Random(seed)), RANDOMNESS)

    with pytest.raises(UnfitStore):
        seeded_loop.run(Random(seed), scenario())


class RacyServer(FaultServer):
    """Looks whether a key is there when a request arrives, and writes a little later."""

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        is_free = f"{request.key}" not in self.bucket.objects
        if request.method == "PUT" and is_free:
            await asyncio.sleep(0.001)
            del request.headers["if-none-match"]
        await super()._answer(request, writer)


def test_a_server_that_checks_and_then_writes_is_found_out() -> None:
    async def scenario() -> None:
        async with RacyServer() as server:
            await probe(bare_store(settings_of(server)), RANDOMNESS)

    with pytest.raises(UnfitStore, match="two brokers could lead"):
        asyncio.run(scenario())


def test_what_cannot_be_asked_is_not_judged() -> None:
    async def away(store: Store, bucket: Bucket) -> None:
        bucket.is_away = True
        await probe(store, RANDOMNESS)

    async def refusing(store: Store, bucket: Bucket) -> None:
        bucket.is_read_only = True
        await probe(store, RANDOMNESS)

    for scenario, error in ((away, StoreAway), (refusing, StoreRefused)):
        bucket = Bucket()
        with pytest.raises(error):
            seeded_loop.run(Random(0), scenario(MemoryStore(bucket), bucket))

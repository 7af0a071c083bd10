"""The suite of stores on PostgreSQL, and what is particular about it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import TypeVar

import pytest
from peers.postgresql import PostgreSql, psycopg

from semel.store.opening import bare_store
from semel.store.probe import probe
from semel.store.retrying import Retrying
from semel.store.seam import Store, StoreAway, StoreRefused
from semel.store.settings import StoreSettings
from semel.types import Buffer
from semel.world import SystemRandomness
from store.test_conformance import *  # noqa: F403
from support.stores import Test

T = TypeVar("T")


class Database:
    """Both a place and a home: of each test, an empty table."""

    def __init__(self, server: PostgreSql) -> None:
        self.server = server
        self._stores: list[Store] = []

    def settings(self, limit_s: float = 10.0) -> StoreSettings:
        return StoreSettings(self.server.url, request_timeout_s=limit_s)

    def connect(self, limit_s: float = 10.0) -> Store:
        self._stores.append(bare_store(self.settings(limit_s)))
        return self._stores[-1]

    def worsen(self) -> None: ...

    def heal(self) -> None: ...

    def run(self, test: Test[T]) -> T:
        async def main() -> T:
            try:
                return await test(self)
            finally:
                for store in self._stores:
                    await store.close()

        return asyncio.run(main())


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with PostgreSql() as running:
        yield running


@pytest.fixture  # type: ignore[no-redef]  # Instead of the suite's.
def place(server: PostgreSql) -> Database:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("drop table if exists semel_objects")
    return Database(server)


def test_it_can_be_trusted_with_an_election(place: Database) -> None:
    async def scenario(home: object) -> None:
        await probe(place.connect(), SystemRandomness())

    place.run(scenario)


def test_the_first_who_come_make_the_table_together(place: Database) -> None:
    async def scenario(home: object) -> None:
        stores = [place.connect() for _ in range(6)]
        await asyncio.gather(*(store.list("a/") for store in stores))

    place.run(scenario)


def test_after_a_crash_all_is_there_and_nobody_has_to_be_told(place: Database) -> None:
    async def scenario(home: object) -> None:
        bare = place.connect()
        store = Retrying(bare, place.settings(), Random(0))
        await bare.create("a/1", [b"x"])
        await asyncio.to_thread(place.server.stop)
        with pytest.raises(StoreAway):
            await bare.create("a/2", [b"x"])
        await asyncio.to_thread(place.server.start)
        assert await store.get("a/1") == b"x"
        assert [found.key for found in await store.list("a/")] == ["a/1"]

    place.run(scenario)


async def fill(store: Store) -> None:
    for number in range(2, 1_000):
        await store.create(f"a/{number:04}", [b"x"])


def test_what_may_be_on_one_machine_alone_is_not_read_back_as_created(place: Database) -> None:
    """The wait for a standby that is not there is broken off, and the row is there for all."""

    async def scenario(home: object) -> None:
        store = place.connect(limit_s=1.0)
        await store.create("a/0001", [b"x"])
        await asyncio.to_thread(place.server.set, "synchronous_standby_names", "nobody")
        try:
            # Connections take the setting up when they next are asked something.
            with pytest.raises(StoreAway):
                await fill(store)
            (*_, last) = await store.list("a/")
            with pytest.raises(StoreAway):
                await store.get(last.key)
        finally:
            await asyncio.to_thread(place.server.set, "synchronous_standby_names", "")
        patient = Retrying(store, place.settings(), Random(0))
        assert await patient.get(last.key) == b"x"

    place.run(scenario)


def test_a_database_that_does_not_sync_is_refused(place: Database) -> None:
    async def scenario(home: object) -> None:
        await asyncio.to_thread(place.server.set, "fsync", "off")
        try:
            with psycopg.connect(place.server.url) as connection:
                while connection.execute("show fsync").fetchone() != ("off",):
                    connection.rollback()
            with pytest.raises(StoreRefused, match="fsync = off"):
                await place.connect().list("a/")
        finally:
            await asyncio.to_thread(place.server.set, "fsync", "on")

    place.run(scenario)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql:///nowhere?host={folder}&user=semel", "does not exist"),
        ("postgresql:///postgres?host={folder}&user=nobody", "does not exist"),
    ],
)
def test_a_database_that_is_not_there_is_a_refusal(place: Database, url: str, said: str) -> None:
    folder = psycopg.conninfo.conninfo_to_dict(place.server.url)["host"]

    async def scenario(home: object) -> None:
        with pytest.raises(StoreRefused, match=said):
            await bare_store(StoreSettings(url.format(folder=folder))).get("a/1")

    place.run(scenario)


def test_what_is_large_is_not_for_a_database(place: Database) -> None:
    async def pieces() -> AsyncIterator[Buffer]:
        while True:
            yield bytes(2**24)

    async def scenario(home: object) -> None:
        with pytest.raises(StoreRefused, match="belongs into a bucket"):
            await place.connect().create_large("vol/1", pieces())

    place.run(scenario)

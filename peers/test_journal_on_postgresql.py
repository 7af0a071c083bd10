"""The suite of journals with their slots on PostgreSQL, the rest in memory."""

import asyncio
from collections.abc import AsyncIterable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from peers.postgresql import PostgreSql, psycopg

from journal.test_conformance import *  # noqa: F403
from journal.test_conformance import T
from semel.journal.seam import Journal
from semel.journal.slots.journal import SlotJournal
from semel.journal.slots.settings import SlotSettings
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.opening import bare_store
from semel.store.seam import Store, StoredObject
from semel.store.settings import StoreSettings
from semel.store.with_journal import WithJournal
from semel.types import Buffer
from support.slot_store import SeededRandomness, alone

UNDER_WAY = """
    select count(*) from pg_stat_activity where application_name = 'semel' and state <> 'idle'
"""


class PerLoop:
    """Connections belong to the loop they were made in; a journal is opened in a loop of its own,
    as that of a process which has not begun."""

    def __init__(self, url: str) -> None:
        self._settings = StoreSettings(url)
        self._stores: dict[asyncio.AbstractEventLoop, Store] = {}

    def _store(self) -> Store:
        loop = asyncio.get_running_loop()
        if loop not in self._stores:
            self._stores[loop] = bare_store(self._settings)
        return self._stores[loop]

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._store().create(key, parts)

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        await self._store().create_large(key, pieces)

    async def get(self, key: str) -> bytes:
        return await self._store().get(key)

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        return await self._store().get_range(key, start, size)

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        return await self._store().list(folder, behind)

    async def delete(self, keys: Iterable[str]) -> None:
        await self._store().delete(keys)

    async def close(self) -> None:
        store = self._stores.pop(asyncio.get_running_loop(), None)
        if store is not None:
            await store.close()


class OnPostgresql:
    """As on other slots: the next process takes the lane by a fence."""

    keeps_written = False

    def __init__(self, url: str) -> None:
        self._url = url
        self._slots = PerLoop(url)
        self._store = WithJournal(MemoryStore(Bucket()), self._slots)
        self._randomness = SeededRandomness(Random(1))
        self._settings = SlotSettings(
            slot_bytes=4096, unconfirmed_bytes=2**20, stretch_bytes=8192, checkpoint_slots=20
        )

    def open(self) -> Journal:
        opening = SlotJournal.open(self._store, 0, 1, self._randomness, self._settings)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self.run, opening).result()

    def kill(self) -> None:
        """Nothing of it lives on: each loop ends what was begun in it."""

    def lose_power(self) -> None:
        self.kill()

    async def let_land(self) -> None:
        def is_quiet() -> bool:
            with psycopg.connect(self._url, autocommit=True) as connection:
                return bool(connection.execute(UNDER_WAY).fetchone() == (0,))

        while not await asyncio.to_thread(is_quiet):
            pass

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        async def closed() -> T:
            try:
                return await alone(main)
            finally:
                await self._slots.close()

        return asyncio.run(closed())


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with PostgreSql() as running:
        yield running


@pytest.fixture  # type: ignore[no-redef]  # Instead of the suite's.
def driver(server: PostgreSql) -> OnPostgresql:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("drop table if exists semel_objects")
    return OnPostgresql(server.url)

"""Where stores can be: in memory, in a folder, behind a server that speaks S3."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from semel.store.in_memory import BAD_DAY, CALM, Bucket, MemoryStore
from semel.store.opening import bare_store
from semel.store.seam import Store
from semel.store.settings import StoreSettings
from semel.testing.fault_server import FaultServer
from support import seeded_loop

T = TypeVar("T")
TIMEOUT_S = 5.0


class Home(Protocol):
    """A place where a store is, and which several clients reach."""

    def connect(self) -> Store: ...

    def worsen(self) -> None:
        """From here on requests fail by chance. A home that cannot do this does nothing."""

    def heal(self) -> None: ...


Test = Callable[[Home], Coroutine[Any, Any, T]]


class Place(Protocol):
    """Of which each test has its own."""

    def run(self, test: Test[T]) -> T: ...


class MemoryHome:
    def __init__(self, random: Random) -> None:
        self.bucket = Bucket()
        self._random = random
        self._stores: list[MemoryStore] = []

    def connect(self) -> Store:
        self._stores.append(MemoryStore(self.bucket, Random(self._random.random())))
        return self._stores[-1]

    def worsen(self) -> None:
        for store in self._stores:
            store.chances = BAD_DAY

    def heal(self) -> None:
        for store in self._stores:
            store.chances = CALM


class InMemory:
    def __init__(self, seed: object = 0) -> None:
        self._random = Random(f"memory {seed}")

    def run(self, test: Test[T]) -> T:
        return seeded_loop.run(self._random, test(MemoryHome(self._random)))


class FolderHome:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def connect(self) -> Store:
        return bare_store(StoreSettings(f"file://{self._folder}", is_ephemeral=True))

    def worsen(self) -> None: ...

    def heal(self) -> None: ...


class InFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, test: Test[T]) -> T:
        return asyncio.run(test(FolderHome(self._folder)))


def settings_of(server: FaultServer, **others: Any) -> StoreSettings:
    usual = StoreSettings(
        f"s3://{server.bucket.name}/some/where",
        endpoint=server.endpoint,
        options={"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"},
        request_timeout_s=TIMEOUT_S,
    )
    return dataclasses.replace(usual, **others)


class ServerHome:
    def __init__(self, server: FaultServer) -> None:
        self.server = server

    def connect(self) -> Store:
        return bare_store(settings_of(self.server))

    def worsen(self) -> None:
        self.server.weather.rate = 0.2

    def heal(self) -> None:
        self.server.weather.rate = 0.0


class BehindServer:
    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def run(self, test: Test[T]) -> T:
        async def main() -> T:
            async with FaultServer(seed=self._seed) as server:
                # So small that a test lists several.
                server.bucket.page_size = 3
                return await test(ServerHome(server))

        return asyncio.run(main())


@contextlib.asynccontextmanager
async def faulty(**others: Any) -> AsyncIterator[tuple[FaultServer, Store]]:
    """A server and one who reaches it; what is said of the settings goes before."""
    async with FaultServer() as server:
        store = bare_store(settings_of(server, **others))
        yield server, store
        await store.close()

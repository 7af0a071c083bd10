"""The stores of a cluster that is there, as one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import NamedTuple, Self

from semel.cluster.format import ClusterFormat, JournalStore, check_journal, read
from semel.cluster.keys import with_newest
from semel.store.opening import open_store
from semel.store.seam import Store
from semel.store.settings import StoreSettings, shown
from semel.store.with_journal import WithJournal


class ClusterSettings(NamedTuple):
    store: StoreSettings
    journal: StoreSettings | None = None
    """Of the slots, if they lie elsewhere."""

    @classmethod
    def of(
        cls,
        store: str,
        store_options: Sequence[str] = (),
        journal: str | None = None,
        *,
        is_ephemeral: bool = False,
    ) -> Self:
        """As a command line names them. Raises ConfigError."""
        return cls(
            StoreSettings.of(store, store_options, is_ephemeral=is_ephemeral),
            None if journal is None else StoreSettings.of(journal, is_ephemeral=is_ephemeral),
        )


class Opened(NamedTuple):
    store: Store
    cluster: ClusterFormat


class Stores(NamedTuple):
    store: Store
    journal: JournalStore | None

    @property
    def joined(self) -> Store:
        return self.store if self.journal is None else WithJournal(self.store, self.journal.store)


@asynccontextmanager
async def stores(settings: ClusterSettings) -> AsyncIterator[Stores]:
    """Nothing is asked of them yet. Raises ConfigError."""
    async with AsyncExitStack() as stack:
        store = open_store(settings.store, Random())
        stack.push_async_callback(store.close)
        journal: JournalStore | None = None
        if settings.journal is not None:
            journal = JournalStore(
                open_store(settings.journal, Random()), shown(settings.journal.url)
            )
            stack.push_async_callback(journal.store.close)
        yield Stores(store, journal)


@asynccontextmanager
async def opened(settings: ClusterSettings) -> AsyncIterator[Opened]:
    """Raises ClusterRefused, NewerFormat, StoreAway, StoreRefused and ConfigError."""
    async with stores(settings) as found:
        cluster = await with_newest(found.store, await read(found.store))
        await check_journal(cluster, found.journal)
        yield Opened(found.joined, cluster)

"""The store that a URL names, behind the one layer that tries again."""

from random import Random
from typing import Final

from semel.errors import ConfigError
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.retrying import Retrying
from semel.store.seam import Store
from semel.store.settings import POSTGRESQL, StoreSettings

EXTRAS: Final = {"obstore": "cluster", "psycopg": "postgresql"}
"""Which of ours brings a library."""


def open_store(settings: StoreSettings, random: Random) -> Store:
    """Nothing is asked of it yet. Raises ConfigError."""
    return Retrying(bare_store(settings), settings, random)


def bare_store(settings: StoreSettings) -> Store:
    """As `open_store`; each call is tried once."""
    if settings.scheme == "memory":
        return MemoryStore(Bucket())
    # Their libraries are needed by those alone who have such a store.
    try:
        if settings.scheme == POSTGRESQL:
            from semel.store.postgresql import PostgresStore

            return PostgresStore.from_settings(settings)
        from semel.store.obstore_driver import ObstoreDriver
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise ConfigError(
            f"a store at {settings.scheme}:// needs {error.name}: install Semel with its extra "
            f"{EXTRAS[error.name]}, as `pip install '.[{EXTRAS[error.name]}]'` does in a checkout"
        ) from error
    return ObstoreDriver.from_settings(settings)

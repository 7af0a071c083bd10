"""The store that a URL names, behind the one layer that tries again."""

from random import Random

from semel.errors import ConfigError
from semel.store.in_memory import Bucket, MemoryStore
from semel.store.retrying import Retrying
from semel.store.seam import Store
from semel.store.settings import StoreSettings


def open_store(settings: StoreSettings, random: Random) -> Store:
    """Nothing is asked of it yet. Raises ConfigError."""
    return Retrying(bare_store(settings), settings, random)


def bare_store(settings: StoreSettings) -> Store:
    """As `open_store`; each call is tried once."""
    if settings.scheme == "memory":
        return MemoryStore(Bucket())
    try:
        # Its library is needed by those alone who have such a store.
        from semel.store.obstore_driver import ObstoreDriver
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise ConfigError(
            f"{settings.url} needs obstore: install Semel with its extra cluster, as in "
            f"`pip install '.[cluster]'`"
        ) from error
    return ObstoreDriver.from_settings(settings)

"""An object store: keys whose bytes are created once, read, listed and deleted, and never changed.

Five calls, because every store has them. What elections and durability rest on is the first alone:
of all who create one key, one wins, and everybody reads what that one wrote.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from semel.errors import SemelError
from semel.types import Buffer


class StoreError(SemelError):
    """The store did not do what it was asked. Each call says what may yet be true."""


class ObjectExists(StoreError):
    """There is something under this key. It may be one's own: an answer was lost, and a library
    below has tried again."""


class ObjectMissing(StoreError):
    """There is nothing under this key."""


class StoreAway(StoreError):
    """It could not be reached, or asks for patience. Whether the deed was done is not known, and
    it may be done later yet."""


class StoreRefused(StoreError):
    """It was reached and says no, for a reason that does not pass by itself: credentials, a bucket
    that is missing, full or read only. Nothing was done."""


class StoredObject(NamedTuple):
    key: str
    size: int


class Store(Protocol):
    """Every call may raise StoreAway or StoreRefused."""

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        """All of it or nothing, and only if there is nothing under this key. When it returns,
        the bytes outlive every machine here. Raises ObjectExists."""

    async def get(self, key: str) -> bytes:
        """What lies there now: whatever was created before this call began is found. Raises
        ObjectMissing."""

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        """Some of its bytes, fewer where it ends. Raises ObjectMissing."""

    async def list(self, prefix: str, behind: str = "") -> list[StoredObject]:
        """All whose keys begin so and come behind that one, by key. What is created or deleted
        meanwhile may be among them or not."""

    async def delete(self, keys: Iterable[str]) -> None:
        """Those that are there. Who deletes knows that nobody will create the key again."""

    async def close(self) -> None: ...

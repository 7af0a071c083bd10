"""An object store: keys whose bytes are created once, read, listed and deleted, and never changed.

Few calls, because every store has them. What elections and durability rest on is the first alone:
of all who create one key, one wins, and everybody reads what that one wrote.

Keys are small letters, digits, `.`, `_`, `-`, and `/` between folders, and none is a folder of
another: with these every store takes a key for what it is, a folder of files among them.
"""

from collections.abc import AsyncIterable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from semel.errors import SemelError
from semel.types import Buffer

CREATE_BYTES_MAX: Final = 17 * 2**20
"""What `create` takes: a slot with all that is around it, in one request."""

PART_BYTES: Final = 8 * 2**20
"""What `create_large` sends in one request, if the store takes parts."""


class StoreError(SemelError):
    """The store did not do what it was asked. Each call says what may yet be true."""


class ObjectExists(StoreError):
    """There is something under this key. It may be one's own: the request arrived twice."""


class ObjectMissing(StoreError):
    """There is nothing under this key."""


class StoreAway(StoreError):
    """It could not be reached, or asks for patience. Whether the deed was done is not known, and
    it may be done later yet."""


class StoreThrottled(StoreAway):
    """It asks for patience, as too much is asked of it."""


class StoreRefused(StoreError):
    """It was reached and says no, for a reason that does not pass by itself: credentials, a bucket
    that is missing, full or read only. Nothing was done by this request; an earlier one for the
    same key that ended in StoreAway may land yet."""


class StoredObject(NamedTuple):
    key: str
    size: int


class Store(Protocol):
    """Every call may raise StoreAway or StoreRefused. To cancel one is like StoreAway."""

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        """All of it or nothing, and only if there is nothing under this key. When it returns,
        the bytes outlive every machine here. Raises ObjectExists. CREATE_BYTES_MAX at most. The
        parts are never changed: who has given up may still be read from."""

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        """All of it or nothing, of any size, under a key that is drawn for this one call: most
        stores cannot tell here whether there is something. After an error another key is taken,
        and the old one deleted when it is certain that nothing is under way any more. A piece is
        not changed until the call is over."""

    async def get(self, key: str) -> bytes:
        """What lies there now: whatever was created before this call began is found. Raises
        ObjectMissing."""

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        """Some of its bytes, one at least is asked for; fewer or none where it ends. Raises
        ObjectMissing."""

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        """All in this folder, whose name ends in `/`, that come behind that key, by key. What is
        created or deleted meanwhile may be among them or not. Stores list folders and not any
        prefix: some know no other."""

    async def delete(self, keys: Iterable[str]) -> None:
        """Those that are there. Who deletes knows that nobody will create the key again."""

    async def close(self) -> None: ...

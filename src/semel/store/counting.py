"""A store around a store that counts what is asked of it, and what that costs by a price list."""

import dataclasses
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from semel.errors import ConfigError
from semel.store.seam import PART_BYTES, Store, StoredObject
from semel.types import Buffer

MONTH_S: Final = 30 * 86_400
GB: Final = 10**9
LIST_PAGE_COUNT: Final = 1000
"""Keys that stores name in one answer."""


@dataclass
class Usage:
    """Requests, whatever came of them, and bytes."""

    puts: int = 0
    """An object that is sent in parts is several."""
    gets: int = 0
    lists: int = 0
    deletes: int = 0
    """Keys, which some stores take many at a time."""
    bytes_written: int = 0
    bytes_read: int = 0

    def copy(self) -> Self:
        return dataclasses.replace(self)

    def since(self, earlier: "Usage") -> "Usage":
        """What has come since that copy was made."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(earlier), strict=True)
        return Usage(*(now - then for now, then in pairs))


@dataclass(frozen=True, slots=True)
class PriceList:
    """In US dollars; requests by the thousand."""

    name: str
    put: float = 0.0
    get: float = 0.0
    list: float = 0.0
    delete: float = 0.0
    gb_month: float = 0.0
    """To keep a gigabyte for a month."""
    gb_read: float = 0.0
    """To read one, from where the brokers are."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`put=0.005 get=0.0004 ...`: what is not named is free. Raises ConfigError."""
        known = {field.name for field in dataclasses.fields(cls)} - {"name"}
        prices: dict[str, float] = {}
        for named in text.split():
            name, _, price = named.partition("=")
            if name not in known:
                raise ConfigError(f"prices have no {name!r}: {', '.join(sorted(known))} are known")
            try:
                prices[name] = float(price)
            except ValueError:
                raise ConfigError(f"the price {named!r} is not a number") from None
        return cls("as set", **prices)

    def month_usd(self, usage: Usage, elapsed_s: float, stored_bytes: int = 0) -> float:
        """What a month costs that goes on as these seconds went."""
        requests = (
            usage.puts * self.put
            + usage.gets * self.get
            + usage.lists * self.list
            + usage.deletes * self.delete
        ) / 1000
        moved = usage.bytes_read / GB * self.gb_read
        kept = stored_bytes / GB * self.gb_month
        return (requests + moved) * MONTH_S / elapsed_s + kept


S3_STANDARD: Final = PriceList(
    "S3 Standard in us-east-1, first tier, read within the region, 2026",
    put=0.005,
    get=0.0004,
    list=0.005,
    gb_month=0.023,
)


class Counting:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.usage = Usage()

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self.usage.puts += 1
        self.usage.bytes_written += sum(map(len, parts))
        await self._store.create(key, parts)

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        # To begin and to end it are requests as well.
        self.usage.puts += 2 + part_count(0)
        await self._store.create_large(key, self._counted(pieces))

    async def _counted(self, pieces: AsyncIterable[Buffer]) -> AsyncIterator[Buffer]:
        size = 0
        async for piece in pieces:
            self.usage.puts += part_count(size + len(piece)) - part_count(size)
            self.usage.bytes_written += len(piece)
            size += len(piece)
            yield piece

    async def get(self, key: str) -> bytes:
        self.usage.gets += 1
        found = await self._store.get(key)
        self.usage.bytes_read += len(found)
        return found

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        self.usage.gets += 1
        found = await self._store.get_range(key, start, size)
        self.usage.bytes_read += len(found)
        return found

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        self.usage.lists += 1
        found = await self._store.list(folder, behind)
        self.usage.lists += len(found) // LIST_PAGE_COUNT
        return found

    async def delete(self, keys: Iterable[str]) -> None:
        named = list(keys)
        self.usage.deletes += len(named)
        await self._store.delete(named)

    async def close(self) -> None:
        await self._store.close()


def part_count(size: int) -> int:
    """An empty object has a part too."""
    return max(1, -(-size // PART_BYTES))

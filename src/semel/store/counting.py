"""A store around a store that counts what is asked of it, how long that takes and what fails."""

import asyncio
import dataclasses
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from semel.store.seam import (
    PART_BYTES,
    ObjectExists,
    ObjectMissing,
    Store,
    StoreAway,
    StoredObject,
    StoreError,
    StoreRefused,
    StoreThrottled,
)
from semel.types import Buffer

LIST_PAGE_COUNT: Final = 1000
"""Keys that stores name in one answer."""

LATENCY_BOUNDS_S: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip

SAMPLE_S: Final = 10.0
SAMPLE_COUNT: Final = 6
"""What was asked of late is what was asked since the oldest of so many samples."""

UNANSWERED: Final = "unanswered"
"""The kind of error where whoever asked has given up."""
KINDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (StoreThrottled, "throttled"),
    (StoreAway, "away"),
    (StoreRefused, "refused"),
)
"""The kind of an error is that of the first that it is."""

Result = TypeVar("Result")


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


class Latencies:
    """How many calls took up to each of LATENCY_BOUNDS_S, and how many longer."""

    def __init__(self) -> None:
        self.counts = [0] * (len(LATENCY_BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, duration_s: float) -> None:
        self.counts[bisect_left(LATENCY_BOUNDS_S, duration_s)] += 1
        self.sum_s += duration_s


class Sample(NamedTuple):
    at_s: float
    usage: Usage


class Recent(NamedTuple):
    usage: Usage
    elapsed_s: float
    """0 if nothing was asked yet."""


class Counting:
    def __init__(self, store: Store, name: str = "store") -> None:
        self.name = name
        """Of the store, where there are several."""
        self.has_slots = True
        self.has_volumes = True
        """What is kept there, and so paid there; each in one of two stores."""
        self.usage = Usage()
        self.latencies: dict[str, Latencies] = {
            verb: Latencies() for verb in ("put", "get", "list", "delete")
        }
        """By verb, of calls that came to an end of their own; uploads in parts are not among
        them, as they take as long as their pieces."""
        self.errors: Counter[tuple[str, str]] = Counter()
        """By verb and kind. That something exists or is missing is no error."""
        self._store = store
        self._samples: deque[Sample] = deque(maxlen=SAMPLE_COUNT + 1)
        self._asked_s = 0.0

    def recent(self) -> Recent:
        """What was asked in about the last minute."""
        if not self._samples:
            return Recent(Usage(), 0.0)
        oldest = self._samples[0]
        return Recent(self.usage.since(oldest.usage), self._asked_s - oldest.at_s)

    def start(self) -> None:
        """What was asked until now was to begin with, and is no part of what is asked of late."""
        self._samples.clear()

    def _begin(self) -> float:
        now_s = self._asked_s = asyncio.get_running_loop().time()
        if not self._samples or now_s - self._samples[-1].at_s >= SAMPLE_S:
            self._samples.append(Sample(now_s, self.usage.copy()))
        return now_s

    async def _answered(self, verb: str, asked: Awaitable[Result]) -> Result:
        begun_s = self._begin()
        try:
            found = await asked
        except (ObjectExists, ObjectMissing):
            self._end(verb, begun_s)
            raise
        except (StoreError, asyncio.CancelledError) as error:
            self.errors[verb, kind_of(error)] += 1
            raise
        self._end(verb, begun_s)
        return found

    def _end(self, verb: str, begun_s: float) -> None:
        self.latencies[verb].add(asyncio.get_running_loop().time() - begun_s)

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        self.usage.puts += 1
        self.usage.bytes_written += sum(map(len, parts))
        await self._answered("put", self._store.create(key, parts))

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        # To begin and to end it are requests as well.
        self.usage.puts += 2 + part_count(0)
        self._begin()
        try:
            await self._store.create_large(key, self._counted(pieces))
        except (StoreError, asyncio.CancelledError) as error:
            self.errors["put", kind_of(error)] += 1
            raise

    async def _counted(self, pieces: AsyncIterable[Buffer]) -> AsyncIterator[Buffer]:
        size = 0
        async for piece in pieces:
            self.usage.puts += part_count(size + len(piece)) - part_count(size)
            self.usage.bytes_written += len(piece)
            size += len(piece)
            yield piece

    async def get(self, key: str) -> bytes:
        self.usage.gets += 1
        found = await self._answered("get", self._store.get(key))
        self.usage.bytes_read += len(found)
        return found

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        self.usage.gets += 1
        found = await self._answered("get", self._store.get_range(key, start, size))
        self.usage.bytes_read += len(found)
        return found

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        self.usage.lists += 1
        found = await self._answered("list", self._store.list(folder, behind))
        self.usage.lists += len(found) // LIST_PAGE_COUNT
        return found

    async def delete(self, keys: Iterable[str]) -> None:
        named = list(keys)
        self.usage.deletes += len(named)
        await self._answered("delete", self._store.delete(named))

    async def close(self) -> None:
        await self._store.close()


@runtime_checkable
class Counted(Protocol):
    """A store of which it is known what is asked of it."""

    @property
    def counted(self) -> Sequence[Counting]: ...

    @property
    def retry_count(self) -> int:
        """Reads, lists and deletes that were asked again."""


def kind_of(error: BaseException) -> str:
    for its_type, kind in KINDS:
        if isinstance(error, its_type):
            return kind
    return UNANSWERED


def part_count(size: int) -> int:
    """An empty object has a part too."""
    return max(1, -(-size // PART_BYTES))

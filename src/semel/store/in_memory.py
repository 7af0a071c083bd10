"""A store in memory, for tests and the simulator: no threads, and what goes wrong comes by seed.

`Bucket` is what lasts. A `MemoryStore` is one process's way to it, on which requests and answers
are late, lost, doubled and overtake each other. A request that is under way arrives although its
process has died, as one would on a network.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Generic, NamedTuple, TypeVar

from semel.store.seam import (
    CREATE_BYTES_MAX,
    ObjectExists,
    ObjectMissing,
    StoreAway,
    StoredObject,
    StoreError,
    StoreRefused,
)
from semel.types import Buffer

Result = TypeVar("Result")
BULK_DELETE_COUNT: Final = 1000
KEY_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789._-/")


class Bucket:
    """What lasts, and what is wrong with it for everybody."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_away = False
        self.is_read_only = False
        self.is_full = False
        self.counts: Counter[str] = Counter()
        """What went wrong, by name."""

    def create(self, key: str, content: bytes) -> None:
        self._check_writable(key)
        if self.is_full:
            self._refuse(key, "the bucket is full")
        if key in self.objects:
            raise ObjectExists(f"there is something under {key}")
        self.objects[key] = content

    def get(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissing(f"there is nothing under {key}")
        return self.objects[key]

    def list(self, folder: str, behind: str) -> list[StoredObject]:
        return [
            StoredObject(key, len(content))
            for key, content in sorted(self.objects.items())
            if key.startswith(folder) and key > behind
        ]

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._check_writable(key)
            self.objects.pop(key, None)

    def _check_writable(self, key: str) -> None:
        if self.is_read_only:
            self._refuse(key, "the bucket is read only")

    def _refuse(self, key: str, reason: str) -> None:
        self.counts[f"refused: {reason}"] += 1
        raise StoreRefused(f"{key}: {reason}")


@dataclass(frozen=True, slots=True)
class Chances:
    """Of one request. They exclude each other, so together they are 1 at most."""

    lost: float = 0.0
    """It never arrives."""
    throttled: float = 0.0
    """It is turned away, and nothing is done."""
    unanswered: float = 0.0
    """It is done, and the answer is lost. Of a delete of many keys, some may be done alone."""
    late: float = 0.0
    """It arrives when who sent it has long given up."""
    doubled: float = 0.0
    """It arrives twice, and either answer is heard."""

    latency_s_mean: float = 0.0
    """Of the way there and back."""
    timeout_s: float = 2.0
    """When who hears nothing gives up."""
    late_s_max: float = 20.0
    """How much later than that a request may arrive."""


CALM: Final = Chances()
BAD_DAY: Final = Chances(
    lost=0.02, throttled=0.02, unanswered=0.02, late=0.02, doubled=0.02, latency_s_mean=0.03
)


class MemoryStore:
    def __init__(
        self, bucket: Bucket, random: Random | None = None, chances: Chances = CALM
    ) -> None:
        self.bucket = bucket
        self.chances = chances
        """May be set otherwise at any time."""
        self.is_cut = False
        """Nothing arrives from here, nor do answers."""
        self.has_expired = False
        """Its credentials: everything is refused."""
        self._random = random or Random(0)

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        content = b"".join(parts)
        assert len(content) <= CREATE_BYTES_MAX, f"{key} has {len(content)} bytes"
        check_key(key)
        await self._send(lambda: self.bucket.create(key, content))

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        check_key(key)
        content = b"".join([bytes(piece) async for piece in pieces])
        # One's own from before is replaced, which makes no difference: the bytes are the same.
        await self._send(lambda: self._replace(key, content))

    async def get(self, key: str) -> bytes:
        return await self._send(lambda: self.bucket.get(key))

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        assert size > 0, f"{size} bytes of {key}"
        return await self._send(lambda: self.bucket.get(key)[start : start + size])

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        assert folder.endswith("/"), f"{folder} is no folder"
        return await self._send(lambda: self.bucket.list(folder, behind))

    async def delete(self, keys: Iterable[str]) -> None:
        named = list(keys)
        for start in range(0, len(named), BULK_DELETE_COUNT):
            page = named[start : start + BULK_DELETE_COUNT]
            some = page[: self._random.randint(0, len(page))]
            await self._send(
                lambda page=page: self.bucket.delete(page),  # type: ignore[misc]
                lambda some=some: self.bucket.delete(some),  # type: ignore[misc]
            )

    async def close(self) -> None: ...

    def _replace(self, key: str, content: bytes) -> None:
        self.bucket.objects.pop(key, None)
        self.bucket.create(key, content)

    async def _send(
        self, deed: Callable[[], Result], in_part: Callable[[], object] | None = None
    ) -> Result:
        """`in_part` is what may be done instead when nobody hears of it."""
        request = Request(self, deed)
        chances, draw = self.chances, self._random.random()
        there_s, back_s = self._latency_s(), self._latency_s()
        for name in ("lost", "throttled", "unanswered", "late", "doubled"):
            draw -= getattr(chances, name)
            if draw < 0:
                self.bucket.counts[name] += 1
                break
        else:
            name = ""
        match name:
            case "lost":
                pass
            case "throttled":
                away = StoreAway("the store asks for patience")
                request.at(there_s + back_s, lambda: request.hear(Heard(None, away)))
            case "unanswered":
                in_full = self._random.random() < 0.5
                request.at(there_s, deed if in_full or in_part is None else in_part)
            case "late":
                request.at(chances.timeout_s + self._random.uniform(0, chances.late_s_max), deed)
            case "doubled":
                again_s = self._random.uniform(0, 2 * chances.timeout_s)
                first_is_heard = self._random.random() < 0.5
                request.arrive(there_s, back_s, is_heard=first_is_heard)
                request.arrive(there_s + again_s, back_s, is_heard=True)
            case _:
                request.arrive(there_s, back_s, is_heard=True)
        return await request.wait()

    def _latency_s(self) -> float:
        mean_s = self.chances.latency_s_mean / 2
        return self._random.expovariate(1 / mean_s) if mean_s else 0.0

    @property
    def is_reached(self) -> bool:
        return not self.is_cut and not self.bucket.is_away


class Heard(NamedTuple):
    """An answer. An error is a value until somebody waits for it: the dead never do."""

    result: Any
    error: StoreError | None


class Request(Generic[Result]):
    """One on its way, and what came of it for who sent it."""

    def __init__(self, store: MemoryStore, deed: Callable[[], Result]) -> None:
        self._store = store
        self._deed = deed
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Heard] = self._loop.create_future()

    def at(self, delay_s: float, step: Callable[[], object]) -> None:
        """In nobody's context: what is on its way is no part of the process that sent it."""
        if delay_s:
            self._loop.call_later(delay_s, self._step, step, context=Context())
        else:
            self._loop.call_soon(self._step, step, context=Context())

    def arrive(self, delay_s: float, back_s: float, *, is_heard: bool) -> None:
        def land() -> None:
            heard = self._perform()
            if is_heard and back_s:
                self.at(back_s, lambda: self.hear(heard))
            elif is_heard:
                self.hear(heard)

        self.at(delay_s, land)

    async def wait(self) -> Result:
        try:
            async with asyncio.timeout(self._store.chances.timeout_s):
                heard = await self._answer
        except TimeoutError:
            raise StoreAway("no answer in time") from None
        if heard.error is not None:
            raise heard.error
        result: Result = heard.result
        return result

    def hear(self, heard: Heard) -> None:
        if not self._answer.done():
            self._answer.set_result(heard)

    def _perform(self) -> Heard:
        if self._store.has_expired:
            self._store.bucket.counts["refused: the credentials have expired"] += 1
            return Heard(None, StoreRefused("the credentials have expired"))
        try:
            return Heard(self._deed(), None)
        except StoreError as error:
            return Heard(None, error)

    def _step(self, step: Callable[[], object]) -> None:
        if not self._store.is_reached:
            self._store.bucket.counts["while away"] += 1
            return
        # Of a deed whose answer nobody hears.
        with contextlib.suppress(StoreError):
            step()


def check_key(key: str) -> None:
    assert KEY_CHARACTERS.issuperset(key), f"{key}: a store may not take this key as it is"
    assert "" not in key.split("/"), f"{key}: a folder without a name"

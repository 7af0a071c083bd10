"""A store in memory that can lose, delay and double what it is asked for.

What was asked for happens at the store whether or not its caller is still there to hear of it.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Sequence
from contextvars import Context
from enum import Enum, auto
from functools import partial
from random import Random
from typing import Any, Never, TypeVar

from semel.journal.slots.entries import Entry, decode
from semel.store.seam import ObjectExists, ObjectMissing, StoreAway, StoredObject
from semel.types import Buffer
from semel.verify.world.loop import settle

T = TypeVar("T")


class Fault(Enum):
    NONE = auto()
    LOST = auto()
    """It is not done, and nobody hears of it."""
    UNHEARD = auto()
    """It is done, and nobody hears of it."""
    LATE = auto()
    """It is done when its caller has given up long ago."""
    DOUBLED = auto()
    """It is done, and later once more."""
    EXISTS = auto()
    """It is done twice at once, and the second answer is heard."""


class SlotStore:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.first: dict[str, bytes] = {}
        """What was the first under each key that was ever created."""
        self.calls: list[tuple[str, str]] = []
        """Verb and key, in the order in which they were begun."""
        self.fault: Callable[[str, str], Fault] = lambda verb, key: Fault.NONE
        self.delay_s: Callable[[], float] = lambda: 0.0
        self.late_s: Callable[[], float] = lambda: 5.0
        self.is_away = False
        self.gates: dict[tuple[str, str], asyncio.Event] = {}
        """By verb and key: nothing of it happens before the event."""
        self.on_created: Callable[[str, bytes], None] = lambda key, stored: None

    # The store's side.

    def put(self, key: str, stored: bytes) -> bool:
        if key in self.objects:
            return False
        self.objects[key] = stored
        self.first.setdefault(key, stored)
        self.on_created(key, stored)
        return True

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self.objects if key.startswith(prefix))

    def entries(self, prefix: str = "j/") -> list[Entry]:
        """What ever was in the slots first, in their order."""
        found = sorted(key for key in self.first if key.startswith(prefix))
        return [decode(self.first[key], key) for key in found]

    # The caller's side.

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        stored = b"".join(parts)
        if not await self._ask("create", key, lambda: self.put(key, stored)):
            raise ObjectExists(key)

    async def create_large(self, key: str, pieces: AsyncIterable[Buffer]) -> None:
        raise AssertionError("a slot is never large")

    async def get(self, key: str) -> bytes:
        stored = await self._ask("get", key, lambda: self.objects.get(key))
        if stored is None:
            raise ObjectMissing(key)
        return stored

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        stored = await self._ask("get_range", key, lambda: self.objects.get(key))
        if stored is None:
            raise ObjectMissing(key)
        return stored[start : start + size]

    async def list(self, folder: str, behind: str = "") -> list[StoredObject]:
        return await self._ask(
            "list",
            folder,
            lambda: [
                StoredObject(key, len(self.objects[key]))
                for key in self.keys(folder)
                if key > behind
            ],
        )

    async def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            await self._ask("delete", key, partial(self.objects.pop, key, None))

    async def close(self) -> None: ...

    async def _ask(self, verb: str, key: str, act: Callable[[], T]) -> T:
        """The store acts, and answers, whatever becomes of its caller meanwhile."""
        self.calls.append((verb, key))
        fault = self.fault(verb, key)
        gate = self.gates.get((verb, key))
        if gate is not None:
            await gate.wait()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def later(delay_s: float, what: Callable[[], None]) -> None:
            if delay_s:
                loop.call_later(delay_s, what, context=Context())
            else:
                loop.call_soon(what, context=Context())

        def tell(what: Callable[[], T]) -> None:
            if not answer.done():
                settle(answer, what)

        def serve() -> None:
            if self.is_away:
                later(self.delay_s(), lambda: tell(partial(_away, verb)))
                return
            found = act()
            if fault is Fault.EXISTS:
                found = act()
            if fault is not Fault.UNHEARD:
                later(self.delay_s(), lambda: tell(lambda: found))

        if fault in (Fault.LOST, Fault.UNHEARD, Fault.LATE):
            later(self.delay_s() + 1.0, lambda: tell(partial(_away, verb)))
        if fault in (Fault.LATE, Fault.DOUBLED):
            later(self.late_s(), act_unheard(act))
        if fault not in (Fault.LOST, Fault.LATE):
            later(self.delay_s(), serve)
        return await answer


def act_unheard(act: Callable[[], object]) -> Callable[[], None]:
    def unheard() -> None:
        act()

    return unheard


def _away(verb: str) -> Never:
    raise StoreAway(verb)


class SeededRandomness:
    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def token_bytes(self, size: int) -> bytes:
        return self._rng.randbytes(size)


async def alone(main: Coroutine[Any, Any, T]) -> T:
    """Runs it, and ends whatever it leaves behind, as the end of a process does."""
    try:
        return await main
    finally:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

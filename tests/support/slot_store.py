"""A store in memory that can lose, delay and double what it is asked for.

What was asked for happens at the store whether or not its caller is still there to hear of it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import Context
from enum import Enum, auto
from random import Random
from typing import Any, TypeVar

from semel.journal.slots.entries import Entry, decode
from semel.store.seam import ObjectExists, ObjectMissing, StoreAway, StoredObject
from semel.types import Buffer

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
        fault = await self._begin("create", key)
        if fault is Fault.LOST:
            raise StoreAway("lost")
        if fault in (Fault.LATE, Fault.DOUBLED):
            loop = asyncio.get_running_loop()
            loop.call_later(self.late_s(), self.put, key, stored, context=Context())
        if fault is Fault.LATE:
            raise StoreAway("late")
        is_new = self.put(key, stored)
        if fault is Fault.UNHEARD:
            raise StoreAway("unheard")
        if not is_new or fault is Fault.EXISTS:
            raise ObjectExists(key)
        await self._answer("create")

    async def get(self, key: str) -> bytes:
        await self._read("get", key)
        if key not in self.objects:
            raise ObjectMissing(key)
        stored = self.objects[key]
        await self._answer("get")
        return stored

    async def get_range(self, key: str, start: int, size: int) -> Buffer:
        await self._read("get_range", key)
        if key not in self.objects:
            raise ObjectMissing(key)
        return self.objects[key][start : start + size]

    async def list(self, prefix: str, behind: str = "") -> list[StoredObject]:
        await self._read("list", prefix)
        return [
            StoredObject(key, len(self.objects[key])) for key in self.keys(prefix) if key > behind
        ]

    async def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            await self._read("delete", key)
            self.objects.pop(key, None)

    async def close(self) -> None: ...

    async def _read(self, verb: str, key: str) -> None:
        if await self._begin(verb, key) is not Fault.NONE:
            raise StoreAway(verb)

    async def _begin(self, verb: str, key: str) -> Fault:
        self.calls.append((verb, key))
        fault = self.fault(verb, key)
        gate = self.gates.get((verb, key))
        if gate is not None:
            await gate.wait()
        await asyncio.sleep(self.delay_s())
        if self.is_away:
            raise StoreAway("away")
        return fault

    async def _answer(self, verb: str) -> None:
        await asyncio.sleep(self.delay_s())


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

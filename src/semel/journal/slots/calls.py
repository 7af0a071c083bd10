"""Calls of a store that may be away: once, or again and again until it answers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from semel.journal.slots.settings import SlotSettings
from semel.store.seam import (
    ObjectExists,
    ObjectMissing,
    Store,
    StoreAway,
    StoredObject,
    StoreRefused,
)
from semel.types import Buffer

T = TypeVar("T")


def trouble_in_words(error: Exception) -> str:
    """For who looks after the store. Neither ends anything by itself: it may be mended."""
    deed = "refuses" if isinstance(error, StoreRefused) else "does not answer"
    return f"the store {deed}, which is tried again: {error}"


class Calls:
    """Law: an answer that is late counts as none; what was asked for may be done yet."""

    def __init__(self, store: Store, settings: SlotSettings) -> None:
        self._store = store
        self._settings = settings
        self.on_trouble: Callable[[Exception], None] = lambda error: None
        """Told of each call that the store did not answer, or refused."""

    def delays(self) -> Iterator[float]:
        delay_s = self._settings.retry_s_min
        while True:
            yield delay_s
            delay_s = min(2 * delay_s, self._settings.retry_s_max)

    # Once. Each raises StoreAway or StoreRefused.

    async def create(self, key: str, parts: Sequence[Buffer]) -> None:
        """Raises ObjectExists."""
        await self._answered(self._store.create(key, parts))

    async def get(self, key: str) -> bytes | None:
        """None if there is nothing."""
        try:
            return await self._answered(self._store.get(key))
        except ObjectMissing:
            return None

    async def get_range(self, key: str, start: int, size: int) -> Buffer | None:
        try:
            return await self._answered(self._store.get_range(key, start, size))
        except ObjectMissing:
            return None

    async def list_all(self, prefix: str, behind: str = "") -> list[StoredObject]:
        return await self._answered(self._store.list(prefix, behind))

    async def delete(self, keys: Sequence[str]) -> None:
        await self._answered(self._store.delete(keys))

    async def _answered(self, call: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._settings.attempt_s):
                return await call
        except TimeoutError:
            away = StoreAway(f"no answer within {self._settings.attempt_s} s")
            self.on_trouble(away)
            raise away from None
        except (StoreAway, StoreRefused) as error:
            self.on_trouble(error)
            raise

    # Until there is an answer.

    async def until_got(self, key: str) -> bytes | None:
        return await self.until_answered(lambda: self.get(key))

    async def until_listed(self, prefix: str, behind: str = "") -> list[StoredObject]:
        return await self.until_answered(lambda: self.list_all(prefix, behind))

    async def until_answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        delays = self.delays()
        while True:
            try:
                return await ask()
            except (StoreAway, StoreRefused):
                await asyncio.sleep(next(delays))

    async def create_once(self, key: str, parts: Sequence[Buffer], attempts: int) -> None:
        """What is the same whoever creates it: that it exists is as good. Raises the last error."""
        delays = self.delays()
        for left in range(attempts - 1, -1, -1):
            try:
                await self.create(key, parts)
            except ObjectExists:
                return
            except StoreAway:
                if not left:
                    raise
                await asyncio.sleep(next(delays))
            else:
                return

"""Whether a store can be trusted with an election, asked before anything rests on it.

Some accept the header and ignore it, some check and then write: those pass when they are asked one
after the other, so creates are raced. No probe can prove that a store is right; this finds what is
known of those that are not.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

from semel.store.seam import ObjectExists, ObjectMissing, Store, StoreAway, StoreError
from semel.types import Buffer
from semel.world import Randomness

RACE_COUNT: Final = 20
RACERS: Final = 8
RACES_AT_ONCE: Final = 4
ATTEMPT_COUNT_MAX: Final = 3 * RACE_COUNT
"""Of races: one in which an answer was lost shows nothing, and is held again."""
CONTENT_BYTES: Final = 8192
"""So that a body takes its time to arrive, in which a store that is not atomic shows it."""


class UnfitStore(StoreError):
    """It does not do what leadership rests on; the message says what."""


async def probe(store: Store, randomness: Randomness) -> None:
    """Raises UnfitStore; StoreAway if it was away too often to tell, and StoreRefused."""
    run = Probe(store, randomness)
    try:
        await run.create_twice()
        await run.race()
    except UnfitStore:
        with contextlib.suppress(StoreError):
            await store.delete(run.keys)
        raise
    await run.clean_up()


class Probe:
    def __init__(self, store: Store, randomness: Randomness) -> None:
        self._store = store
        self._randomness = randomness
        self._folder = f"probe/{randomness.token_bytes(8).hex()}/"
        self._names: Iterator[int] = iter(range(10**6))
        self.keys: list[str] = []
        """All that may be there."""

    async def create_twice(self) -> None:
        for _ in range(ATTEMPT_COUNT_MAX):
            key, first, second = self._new_key(), self._new_content(), self._new_content()
            try:
                with contextlib.suppress(ObjectExists):
                    # Nobody else has this key: it can only be this request, arrived twice.
                    await self._store.create(key, [first])
                try:
                    await self._store.create(key, [second])
                except ObjectExists:
                    break
                raise UnfitStore(
                    f"the store is told to create {key} only if it is absent, and creates it twice"
                )
            except StoreAway as error:
                away = error
        else:
            raise away
        found = await self._get(key)
        if found is None:
            raise UnfitStore(f"the store has created {key}, and a read right after finds nothing")
        if found != first:
            raise UnfitStore(f"the store says that {key} exists, and has replaced it nevertheless")
        if bytes(await self._store.get_range(key, 10, 20)) != first[10:30]:
            raise UnfitStore(f"the store gives other bytes for a range of {key} than for all of it")
        if key not in [listed.key for listed in await self._store.list(self._folder)]:
            raise UnfitStore(
                f"the store has created {key}, and a list right after does not name it"
            )

    async def race(self) -> None:
        decided = attempted = 0
        while decided < RACE_COUNT:
            if attempted >= ATTEMPT_COUNT_MAX:
                raise StoreAway(f"{attempted} races, of which {decided} had all answers")
            attempted += RACES_AT_ONCE
            decided += sum(await asyncio.gather(*(self._race_once() for _ in range(RACES_AT_ONCE))))

    async def _race_once(self) -> bool:
        """False: it shows nothing, as answers were lost."""
        key = self._new_key()
        contents = [self._new_content() for _ in range(RACERS)]
        told = await asyncio.gather(*(self._enter(key, content) for content in contents))
        winners = [content for content, won in zip(contents, told, strict=True) if won]
        if len(winners) > 1:
            raise UnfitStore(
                f"{len(winners)} of {RACERS} who created {key} at once were told that they had: "
                f"the store checks and then writes, so two brokers could lead"
            )
        found = await self._get(key)
        if not winners:
            if found is None and None not in told:
                raise UnfitStore(
                    f"the store tells all who create {key} that it exists: it does not"
                )
            return False
        if found is None:
            raise UnfitStore(f"the store has created {key}, and a read right after finds nothing")
        if found != winners[0]:
            raise UnfitStore(
                f"of {RACERS} who created {key} at once one was told that it had, and what is read "
                f"there is not what that one wrote"
            )
        return True

    async def _enter(self, key: str, content: bytes) -> bool | None:
        """Whether it has won; None: nobody knows."""
        try:
            await self._store.create(key, [content])
        except ObjectExists:
            return False
        except StoreAway:
            return None
        return True

    async def clean_up(self) -> None:
        await self._store.delete(self.keys)
        # One tells for all, as each look costs a request.
        if await self._get(self.keys[0]) is not None:
            raise UnfitStore(f"the store has deleted {self.keys[0]}, and it is still there")

    async def _get(self, key: str) -> Buffer | None:
        try:
            return await self._store.get(key)
        except ObjectMissing:
            return None

    def _new_key(self) -> str:
        self.keys.append(f"{self._folder}{next(self._names):04}")
        return self.keys[-1]

    def _new_content(self) -> bytes:
        return self._randomness.token_bytes(16) * (CONTENT_BYTES // 16)

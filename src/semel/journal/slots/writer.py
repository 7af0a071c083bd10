"""Puts what is appended into slots, one after the other: one PUT in flight, batches fill meanwhile.

A slot is begun when somebody waits for what goes into it, when it is full, or a while after its
first byte. Begun at once for what nobody waits for, it would be in the way of a commit that comes
next.

`durable` only rises. The durable state is moved by `on_durable` before anyone who waited for it is
told. A foreign entry in our slot ends it: another leads, and what is unconfirmed may count or not.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from semel.errors import JournalFailed
from semel.journal.seam import JournalAbandoned
from semel.journal.slots import keys
from semel.journal.slots.barrier import Barriers
from semel.journal.slots.calls import Calls
from semel.journal.slots.entries import (
    ENTRY_HEADER_SIZE,
    NONCE_SIZE,
    Entry,
    Head,
    Kind,
    decode,
    encode,
    successor_bytes,
)
from semel.journal.slots.landing import Found, judge, land
from semel.journal.slots.settings import SlotSettings
from semel.journal.slots.table import SlotTable
from semel.store.seam import StoreError
from semel.types import Buffer, Position
from semel.world import Randomness


class Leadership(NamedTuple):
    """Who writes."""

    lane: int
    node: int
    epoch: int
    term: int


class Batch:
    """Frames that go into one slot."""

    __slots__ = ("begun_s", "end", "first_position", "is_closed", "parts")

    def __init__(self, first_position: Position, begun_s: float) -> None:
        self.first_position = first_position
        self.begun_s = begun_s
        """When the first of them was appended."""
        self.end = first_position
        self.parts: list[Buffer] = []
        self.is_closed = False
        """Nothing is added any more."""

    def read(self, position: int, size: int) -> bytes:
        skip = position - self.first_position
        return b"".join(self.parts)[skip : skip + size]


class Begun(NamedTuple):
    """The newest entry of ours."""

    slot: int
    nonce: bytes


Waiter = tuple[int, Callable[[], None]]


class Writer:
    def __init__(
        self,
        calls: Calls,
        leadership: Leadership,
        slot: int,
        end: Position,
        table: SlotTable,
        randomness: Randomness,
        settings: SlotSettings,
    ) -> None:
        self.durable = end
        self.slot = slot
        """The first that is not known to be ours."""
        self.failure: JournalFailed | None = None
        self.puts = 0
        self.barriers = Barriers()
        self.on_confirmed: Callable[[int, list[Buffer]], None] | None = None
        """Hears of each slot that is known to be ours, and what is in it."""
        self._calls = calls
        self._leadership = leadership
        self._end = end
        self._table = table
        self._randomness = randomness
        self._settings = settings
        self._batches: deque[Batch] = deque()
        """Unconfirmed, the oldest first; the first may be in flight."""
        self._begun: Begun | None = None
        self._has_work = asyncio.Event()
        self._is_awaited = asyncio.Event()
        """What is appended is to be written now."""
        self._look = asyncio.Event()
        """The slot behind ours has to be looked at for a barrier."""
        self._waiters: deque[Waiter] = deque()
        self._is_sealed = False
        self._on_durable: Callable[[Position], None]
        self._on_failure: Callable[[JournalFailed], None]

    def start(
        self,
        on_durable: Callable[[Position], None],
        on_failure: Callable[[JournalFailed], None],
    ) -> None:
        """`run` and `look` have to be run from here on."""
        self._on_durable = on_durable
        self._on_failure = on_failure

    # What is to be written.

    def add(self, header: bytes, parts: list[Buffer], end: Position) -> None:
        batches = self._batches
        fits = self._settings.slot_bytes - ENTRY_HEADER_SIZE
        if not batches or batches[-1].is_closed or end - batches[-1].first_position > fits:
            batches.append(Batch(self._end, asyncio.get_running_loop().time()))
            if len(batches) > 1:
                # Nothing comes to the one before it any more.
                self._is_awaited.set()
        batch = batches[-1]
        batch.parts.append(header)
        batch.parts += parts
        batch.end = self._end = end
        self._has_work.set()

    def cut(self) -> None:
        """What is added from now on comes into another slot."""
        if self._batches:
            self._batches[-1].is_closed = True
            self._is_awaited.set()

    @property
    def unconfirmed_bytes(self) -> int:
        return self._end - self.durable

    def read(self, position: int, size: int) -> bytes | None:
        """Bytes of one frame, if it is not durable yet."""
        if position < self.durable:
            return None
        number = bisect_right(self._batches, position, key=_first_position) - 1
        return self._batches[number].read(position, size)

    # Who waits.

    def when_durable(self, position: int, callback: Callable[[], None]) -> None:
        waiters = self._waiters
        if position <= self.durable:
            callback()
            return
        if not waiters:
            self._is_awaited.set()
        if not waiters or waiters[-1][0] <= position:
            waiters.append((position, callback))
        else:
            waiters.insert(bisect_right(waiters, position, key=_position), (position, callback))

    def when_alone(self, callback: Callable[[], None]) -> None:
        """The barrier, for all that was appended."""
        self.barriers.ask(self._end, asyncio.get_running_loop().time(), callback)
        self._look.set()
        self._is_awaited.set()

    # Writing.

    async def run(self) -> None:
        while True:
            if not self._batches:
                self._has_work.clear()
                # No PUT will tell those who wait for a barrier.
                self._look.set()
                await self._has_work.wait()
            await self._until_awaited()
            if self._settings.linger_ms:
                await asyncio.sleep(self._settings.linger_ms / 1000)
            await self._write(self._batches[0])
            if self.failure is not None:
                return

    async def _until_awaited(self) -> None:
        """Returns when the oldest batch is to be written."""
        batch = self._batches[0]
        if batch.is_closed or len(self._batches) > 1 or self._waiters or len(self.barriers):
            return
        self._is_awaited.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(batch.begun_s + self._settings.flush_interval_ms / 1000):
                await self._is_awaited.wait()

    async def _write(self, batch: Batch) -> None:
        batch.is_closed = True
        size = batch.end - batch.first_position
        number = self.barriers.begin()
        if not await self._put(Kind.DATA, batch.first_position, size, batch.parts):
            return
        self._table.add(self.slot - 1, batch.first_position, batch.end)
        self._batches.popleft()
        self.durable = batch.end
        self._on_durable(batch.end)
        reached: list[Callable[[], None]] = []
        while self._waiters and self._waiters[0][0] <= batch.end:
            reached.append(self._waiters.popleft()[1])
        self._tell(reached + self._proved(number, batch.end))

    async def seal(self, successor: int | None) -> None:
        """The last entry: all else is durable, and nothing is decided behind it (rule 17)."""
        assert not self._batches, "there is something to say behind the seal"
        self._is_sealed = True
        body = successor_bytes(successor)
        number = self.barriers.begin()
        if await self._put(Kind.SEAL, self.durable, len(body), [body]):
            # It is a PUT as any other: nobody else can have led before it.
            self._tell(self.barriers.proved(number, self.durable))

    async def _put(
        self, kind: Kind, first_position: Position, size: int, parts: list[Buffer]
    ) -> bool:
        """Into our next slot; False if that is another's."""
        who = self._leadership
        nonce = self._randomness.token_bytes(NONCE_SIZE)
        self._begun = Begun(self.slot, nonce)
        head = Head(kind, who.epoch, who.term, who.node, nonce, first_position, self.durable, size)
        self.puts += 1
        key = keys.slot(who.lane, self.slot)
        content = [encode(head), *parts]
        foreign = await land(self._calls, key, content, nonce)
        if self.failure is not None:
            return False
        if foreign is not None:
            self._lost(self.slot, foreign)
            return False
        if self.on_confirmed is not None:
            self.on_confirmed(self.slot, content)
        self.slot += 1
        return True

    # The barrier.

    async def look(self) -> None:
        """Looks at the slot behind ours whenever a barrier waits that no PUT will release."""
        delays = self._calls.delays()
        while True:
            await self._look.wait()
            self._look.clear()
            # What is appended and not begun yet proves as much, when it is confirmed.
            if not len(self.barriers) or self._batches or self._is_sealed:
                continue
            slot, durable, number = self.slot, self.durable, self.barriers.begin()
            try:
                found = await self._found(slot)
            except StoreError:
                # It is asked again, for all who wait by then.
                self._look.set()
                await asyncio.sleep(next(delays))
                continue
            delays = self._calls.delays()
            if self.failure is not None or found is Found.FOREIGN:
                return
            self._tell(self._proved(number, durable))
            if len(self.barriers):
                self._look.set()

    def _proved(self, number: int, durable: Position) -> list[Callable[[], None]]:
        released = self.barriers.proved(number, durable)
        if released:
            self.barriers.sum_up(asyncio.get_running_loop().time())
        return released

    async def _found(self, slot: int) -> Found:
        key = keys.slot(self._leadership.lane, slot)
        stored = await self._calls.get(key)
        begun = self._begun
        nonce = begun.nonce if begun is not None and begun.slot == slot else None
        if stored is None or self.slot > slot:
            # Confirmed meanwhile, it is ours.
            return Found.FREE
        entry = decode(stored, key)
        found = judge(nonce, entry)
        if found is Found.FOREIGN and self.failure is None:
            self._lost(slot, entry)
        return found

    # Ending.

    def _lost(self, slot: int, foreign: Entry) -> None:
        head = foreign.head
        self.end(
            JournalAbandoned(
                f"slot {slot} of lane {self._leadership.lane} went to node {head.node}, "
                f"epoch {head.epoch}"
            )
        )

    def end(self, failure: JournalFailed) -> None:
        """Nothing is written and no one is answered any more."""
        if self.failure is None:
            self.failure = failure
            self._on_failure(failure)

    def _tell(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in callbacks:
            if self.failure is None:
                callback()


def _first_position(batch: Batch) -> int:
    return batch.first_position


def _position(waiter: Waiter) -> int:
    return waiter[0]

"""Puts what is appended into slots, one after the other; batches fill while a PUT is under way.

A slot is begun when somebody waits for what goes into it, when it is full, or a while after its
first byte. Begun at once for what nobody waits for, it would be in the way of a commit that comes
next. Beside others that are under way it is begun only if much waits (`puts_at_once`), so that what
comes in trickles fills one slot and not many.

Law: a slot is confirmed when it is known to be ours and all before it are. Nobody is told of one
before, it is not read, and no checkpoint covers it: whoever takes the lane fences the first slot
that is free, and what landed behind that is void.

`durable` only rises. The durable state is moved by `on_durable` before anyone who waited for it is
told. A foreign entry in our slot ends it: another leads, and what is unconfirmed may count or not.
What does not count is no such entry: it was left by who led before, and is passed over.
"""

import asyncio
import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

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
from semel.journal.slots.history import is_void
from semel.journal.slots.landing import Found, judge, land
from semel.journal.slots.settings import PUTS_AT_ONCE_MAX, SlotSettings
from semel.journal.slots.table import SlotTable
from semel.store.seam import StoreError
from semel.types import Buffer, Position
from semel.world import Randomness

JOINED_PART_BYTES: Final = 64 * 2**10
"""Parts that are smaller on average are joined once, or whoever is given them looks at each."""


class Leadership(NamedTuple):
    """Who writes."""

    lane: int
    node: int
    epoch: int
    term: int


class Batch:
    """Frames that go into one slot."""

    __slots__ = ("begun_s", "end", "first_position", "is_closed", "parts", "put")

    def __init__(self, first_position: Position, begun_s: float) -> None:
        self.first_position = first_position
        self.begun_s = begun_s
        """When the first of them was appended."""
        self.end = first_position
        self.parts: list[Buffer] = []
        self.is_closed = False
        """Nothing is added any more."""
        self.put: Put | None = None
        """By which it goes into its slot, once that is begun."""

    def read(self, position: int, size: int) -> bytes:
        skip = position - self.first_position
        return b"".join(self.parts)[skip : skip + size]


class Put:
    """An entry of ours that was begun."""

    __slots__ = ("content", "has_landed", "nonce", "number", "slot")

    def __init__(self, slot: int, nonce: bytes, number: int, content: list[Buffer]) -> None:
        self.slot = slot
        self.nonce = nonce
        self.number = number
        """Of what was begun, for barriers."""
        self.content = content
        self.has_landed = False


Waiter = tuple[int, Callable[[], None]]


class Writer:
    def __init__(
        self,
        calls: Calls,
        leadership: Leadership,
        fence: int,
        end: Position,
        table: SlotTable,
        randomness: Randomness,
        settings: SlotSettings,
    ) -> None:
        self.durable = end
        self.slot = fence + 1
        """The first that is not confirmed."""
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
        # Asked with each frame.
        self._body_bytes_max = settings.slot_bytes - ENTRY_HEADER_SIZE
        self._ahead_bytes = settings.ahead_bytes
        self._alone_before = fence + PUTS_AT_ONCE_MAX if fence else 0
        """Slots before this one may hold what is void, unless nobody has led before: one PUT at a
        time goes there, as what has to give way must not have others behind it."""
        self._batches: deque[Batch] = deque()
        """Unconfirmed, the oldest first."""
        self._begun_count = 0
        """Of these, so many are under way; some may have landed before others."""
        self._turn = asyncio.Lock()
        """Held by who waits for the next batch to be begun."""
        self._has_work = asyncio.Event()
        """There is more to be begun, or something was confirmed."""
        self._is_awaited = asyncio.Event()
        """What is appended is to be written now."""
        self._look = asyncio.Event()
        """The slot behind ours has to be looked at for a barrier."""
        self._waiters: deque[Waiter] = deque()
        self._sealing: Put | None = None
        self._on_durable: Callable[[Position], None]
        self._on_failure: Callable[[JournalFailed], None]

    def start(
        self,
        on_durable: Callable[[Position], None],
        on_failure: Callable[[JournalFailed], None],
    ) -> None:
        """`run`, `puts_at_once` times, and `look` have to be run from here on."""
        self._on_durable = on_durable
        self._on_failure = on_failure

    # What is to be written.

    def add(self, header: bytes, parts: list[Buffer], end: Position) -> None:
        batches = self._batches
        batch = batches[-1] if batches else None
        if batch is None or batch.is_closed or end - batch.first_position > self._body_bytes_max:
            batch = Batch(self._end, asyncio.get_running_loop().time())
            batches.append(batch)
            if len(batches) > 1:
                # Nothing comes to the one before it any more.
                self._is_awaited.set()
        batch.parts.append(header)
        batch.parts += parts
        batch.end = self._end = end
        if not self._begun_count or self._is_much_waiting:
            self._has_work.set()

    def cut(self) -> None:
        """What is added from now on comes into another slot."""
        if self._batches:
            self._batches[-1].is_closed = True
            self._is_awaited.set()

    @property
    def unconfirmed_bytes(self) -> int:
        return self._end - self.durable

    @property
    def _is_much_waiting(self) -> bool:
        """Enough to be worth a PUT beside those that are under way."""
        if len(self._batches) == self._begun_count:
            return False
        waiting = self._end - self._batches[self._begun_count].first_position
        return waiting >= self._ahead_bytes

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
        """One PUT after the other, of those that are under way at once."""
        while self.failure is None:
            async with self._turn:
                await self._until_due()
                put = self._begin()
            await self._land(put)
            self._confirm()

    async def _until_due(self) -> None:
        """Returns when the next batch is to be begun."""
        while self._begun_count:
            if (
                self._is_much_waiting
                and self._begun_count < self._settings.puts_at_once
                and self.slot >= self._alone_before
            ):
                return
            self._has_work.clear()
            await self._has_work.wait()
        if not self._batches:
            self._has_work.clear()
            # No PUT will tell those who wait for a barrier.
            self._look.set()
            await self._has_work.wait()
        await self._until_awaited()
        if self._settings.linger_ms:
            await asyncio.sleep(self._settings.linger_ms / 1000)

    async def _until_awaited(self) -> None:
        """Returns when the oldest batch is to be written."""
        batch = self._batches[0]
        if batch.is_closed or len(self._batches) > 1 or self._waiters or len(self.barriers):
            return
        self._is_awaited.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(batch.begun_s + self._settings.flush_interval_ms / 1000):
                await self._is_awaited.wait()

    def _begin(self) -> Put:
        batch = self._batches[self._begun_count]
        batch.is_closed = True
        size = batch.end - batch.first_position
        slot = self.slot + self._begun_count
        put = batch.put = self._put_of(Kind.DATA, slot, batch.first_position, size, batch.parts)
        self._begun_count += 1
        return put

    def _put_of(
        self, kind: Kind, slot: int, first_position: Position, size: int, parts: list[Buffer]
    ) -> Put:
        who = self._leadership
        nonce = self._randomness.token_bytes(NONCE_SIZE)
        head = Head(kind, who.epoch, who.term, who.node, nonce, first_position, self.durable, size)
        self.puts += 1
        content: list[Buffer] = [encode(head), *parts]
        if size < len(parts) * JOINED_PART_BYTES:
            content = [b"".join(content)]
        return Put(slot, nonce, self.barriers.begin(), content)

    async def _land(self, put: Put) -> None:
        """Into its slot; if that is another's, it is over."""
        while True:
            key = keys.slot(self._leadership.lane, put.slot)
            foreign = await land(self._calls, key, put.content, put.nonce)
            if self.failure is not None:
                return
            if foreign is None:
                put.has_landed = True
                return
            if not is_void(self._leadership.epoch, foreign.head):
                self._lost(put.slot, foreign)
                return
            # What stands there stays, so that ours can never land there as well.
            assert put.slot == self.slot, "what is void lies behind what is under way"
            self.slot += 1
            put.slot += 1

    def _confirm(self) -> None:
        """What has landed, up to the first that has not."""
        while self._begun_count and self.failure is None:
            batch = self._batches[0]
            put = batch.put
            assert put is not None
            if not put.has_landed:
                break
            self._table.add(put.slot, batch.first_position, batch.end)
            self._batches.popleft()
            self._begun_count -= 1
            self._confirmed(put)
            self.durable = batch.end
            self._on_durable(batch.end)
            waiters = self._waiters
            while waiters and waiters[0][0] <= batch.end and self.failure is None:
                waiters.popleft()[1]()
            self._tell(self._proved(put.number, batch.end))
        self._has_work.set()

    def _confirmed(self, put: Put) -> None:
        if self.on_confirmed is not None:
            self.on_confirmed(put.slot, put.content)
        self.slot = put.slot + 1

    async def seal(self, successor: int | None) -> None:
        """The last entry: all else is durable, and nothing is decided behind it (rule 17)."""
        assert not self._batches, "there is something to say behind the seal"
        body = successor_bytes(successor)
        put = self._put_of(Kind.SEAL, self.slot, self.durable, len(body), [body])
        self._sealing = put
        await self._land(put)
        if put.has_landed:
            self._confirmed(put)
            # It is a PUT as any other: nobody else can have led before it.
            self._tell(self.barriers.proved(put.number, self.durable))

    # The barrier.

    async def look(self) -> None:
        """Looks at the slot behind ours whenever a barrier waits that no PUT will release."""
        delays = self._calls.delays()
        while True:
            await self._look.wait()
            self._look.clear()
            # What is appended and not begun yet proves as much, when it is confirmed.
            if not len(self.barriers) or self._batches or self._sealing is not None:
                continue
            slot, durable, number = self.slot, self.durable, self.barriers.begin()
            found: Found | None = None
            with contextlib.suppress(StoreError):
                found = await self._found(slot)
            if found is None:
                # It is asked again, for all who wait by then.
                self._look.set()
                await asyncio.sleep(next(delays))
                continue
            delays = self._calls.delays()
            if self.failure is not None or found is Found.FOREIGN:
                return
            if found is not Found.VOID:
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
        if stored is None:
            return Found.FREE
        entry = decode(stored, key)
        put = self._batches[0].put if self._begun_count else self._sealing
        if is_void(self._leadership.epoch, entry.head):
            # If a PUT is under way there, that passes over it.
            if slot == self.slot and put is None:
                self.slot += 1
            return Found.VOID
        if self.slot > slot:
            # It was confirmed meanwhile.
            return Found.OURS
        found = judge(put.nonce if put is not None else None, entry)
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

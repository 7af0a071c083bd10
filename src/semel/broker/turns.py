"""Work that strangers make: it gets a share of the time, and each address its turn.

A handshake of TLS takes more than a millisecond of the loop, and the check of a password several of
a core, whoever asks for it. Without a bound a few hundred who only try would take all there is from
those who have come in; without turns one of them would keep all others from coming in.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from semel.access.origin import counted_as

CREDIT_S: Final = 0.5
"""Of the time that nobody has used lately, so much may be used at once."""

_EARLY_S: Final = 0.001
"""A timer may be called a little before its time."""


class _Turn(NamedTuple):
    called: "asyncio.Future[None]"
    cost_s: float


class Turns:
    def __init__(self, share: float, *, one_at_a_time: bool) -> None:
        """`share` of all time is for this."""
        self._loop = asyncio.get_running_loop()
        self._share = share
        self._one_at_a_time = one_at_a_time
        self._is_taken = False
        self._free_s = self._loop.time() - CREDIT_S / share
        """When the next may begin."""
        self._waiting: dict[str, deque[_Turn]] = {}
        """By where they come from, in the order of their turns."""
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, host: str, cost_s: float = 0.0) -> None:
        """Return when it is this one's turn; `cost_s` if it is known what that takes."""
        if not self._waiting and self._is_free():
            self._take(cost_s)
            return
        called: asyncio.Future[None] = self._loop.create_future()
        turn, host = _Turn(called, cost_s), counted_as(host)
        self._waiting.setdefault(host, deque()).append(turn)
        self._plan()
        try:
            await called
        except asyncio.CancelledError:
            if called.cancelled():
                self._forget(host, turn)
            else:
                self.end()
            raise

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """For work on the loop, which does not wait for anything."""
        await self.begin(host)
        begun_s = self._loop.time()
        try:
            yield
        finally:
            self.spend(self._loop.time() - begun_s)
            self.end()

    def spend(self, spent_s: float) -> None:
        """So much of the share is used."""
        earliest_s = self._loop.time() - CREDIT_S / self._share
        self._free_s = max(self._free_s, earliest_s) + spent_s / self._share

    def end(self) -> None:
        """The next may begin, where there is one at a time."""
        self._is_taken = False
        self._plan()

    def _is_free(self) -> bool:
        return not self._is_taken and self._loop.time() + _EARLY_S >= self._free_s

    def _take(self, cost_s: float) -> None:
        self._is_taken = self._one_at_a_time
        self.spend(cost_s)

    def _plan(self) -> None:
        if self._waiting and not self._is_taken and self._timer is None:
            self._timer = self._loop.call_at(self._free_s, self._call_next)

    def _call_next(self) -> None:
        self._timer = None
        if self._waiting and self._is_free():
            host, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            del self._waiting[host]
            if turns:
                # Behind all others.
                self._waiting[host] = turns
            # Who has gone in this very moment, and was not told yet, takes nothing.
            if not turn.called.cancelled():
                self._take(turn.cost_s)
                turn.called.set_result(None)
        self._plan()

    def _forget(self, host: str, turn: _Turn) -> None:
        turns = self._waiting.get(host)
        if turns is None or turn not in turns:
            # It was passed over already.
            return
        turns.remove(turn)
        if not turns:
            del self._waiting[host]

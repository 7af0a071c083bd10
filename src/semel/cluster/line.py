"""A connection to another node on which many calls are under way at once.

Each call carries a number, and so does its answer: whoever is answered soon does not wait for those
who asked before and need a sync. Nothing waits to be said (`outbox.py`).
"""

import asyncio
from typing import Final

import msgspec

from semel.at_once import Awaited
from semel.cluster import messages
from semel.cluster.channel import Channel, NodeAway
from semel.cluster.messages import UNANSWERED, AnyAnswer, AnyRequest, Numbered
from semel.cluster.outbox import Outbox

UNANSWERED_MAX: Final = 4_000
"""Calls. A node that answers none of so many is away."""


class _Asked(Awaited[AnyAnswer]):
    def __init__(self, asked_s: float, until_s: float) -> None:
        super().__init__()
        self.asked_s = asked_s
        self.until_s = until_s


class Line:
    def __init__(self, channel: Channel) -> None:
        """Takes over a channel on which nothing is under way; nobody else may ask on it."""
        self._channel = channel
        self._outbox = Outbox(channel.write)
        self._asked: dict[int, _Asked] = {}
        self._last_number = 0
        self._heard_s = 0.0
        """When the last answer came."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        """For who has waited longest, or for one that was answered since."""
        self.is_open = True
        channel.hear(self._hear, self._end)

    async def ask(self, request: AnyRequest, patience_s: float) -> AnyAnswer:
        """Raises NodeAway: whether it was heard is not known then."""
        if not self.is_open or len(self._asked) >= UNANSWERED_MAX:
            raise NodeAway("too much is unanswered" if self.is_open else "the connection has ended")
        self._last_number += 1
        number = self._last_number
        now_s = self._loop.time()
        asked = self._asked[number] = _Asked(now_s, now_s + patience_s)
        if self._timer is None or self._timer.when() > asked.until_s:
            self._look_at(asked.until_s)
        self._outbox.say(self._channel.signed(Numbered(number, messages.encode(request))))
        try:
            return await asked
        finally:
            # Whoever waits no more has not heard anything either: those who ask again and again,
            # and lose patience each time, would never find out.
            if asked.done() and not asked.cancelled():
                self._asked.pop(number, None)

    def tell(self, request: AnyRequest) -> bool:
        """Say what needs no answer; whether it is there before whatever is said later on other
        ways. If not, it may arrive or not."""
        if not self.is_open or not self._outbox.is_empty or not self._channel.may_place:
            return False
        return self._channel.place(
            self._channel.signed(Numbered(UNANSWERED, messages.encode(request)))
        )

    def close(self) -> None:
        self._end("the connection was given up")

    def _look_at(self, time_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(time_s, self._look)

    def _look(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        for number, asked in tuple(self._asked.items()):
            if asked.until_s <= now_s:
                self._asked.pop(number, None)
                asked.fail(NodeAway("it does not answer in time"))
                if self._heard_s <= asked.asked_s:
                    # It may be that nothing arrives there any more, and neither end is told.
                    # Another connection may well do, and what is said twice does no harm.
                    self.close()
        until_s = min((each.until_s for each in self._asked.values()), default=None)
        if until_s is not None and self.is_open:
            self._look_at(until_s)

    def _hear(self, heard: AnyAnswer) -> None:
        self._heard_s = self._loop.time()
        if not isinstance(heard, Numbered):
            self._end("it does not know such calls")
            return
        asked = self._asked.pop(heard.number, None)
        if asked is None or asked.done():
            return
        try:
            answer = messages.decode_answer(heard.said)
        except msgspec.DecodeError as error:
            # What a node of another version answers may be unknown here, and the next calls are
            # not.
            asked.fail(NodeAway(f"its answer is not understood: {error}"))
        else:
            asked.give(answer)

    def _end(self, why: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close()
        for asked in tuple(self._asked.values()):
            asked.fail(NodeAway(why))

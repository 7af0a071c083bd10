"""A connection to another node on which many calls are under way at once.

Each call carries a number, and so does its answer: whoever is answered soon does not wait for those
who asked before and need a sync. What is said first in a pass of the loop leaves at once, and
the rest in one write behind it.
"""

import asyncio
from typing import Final

import msgspec

from semel.at_once import Awaited
from semel.cluster import messages
from semel.cluster.channel import Channel, NodeAway
from semel.cluster.messages import AnyAnswer, AnyRequest, Numbered

UNANSWERED_MAX: Final = 4_000
"""Calls. A node that answers none of so many is away."""


class Line:
    def __init__(self, channel: Channel) -> None:
        """Takes over a channel on which nothing is under way; nobody else may ask on it."""
        self._channel = channel
        self._asked: dict[int, Awaited[AnyAnswer]] = {}
        self._last_number = 0
        self._heard_s = 0.0
        """When the last answer came."""
        self._said: list[bytes] = []
        self._is_write_planned = False
        self._loop = asyncio.get_running_loop()
        self.is_open = True
        channel.hear(self._hear, self._end)

    async def ask(self, request: AnyRequest, patience_s: float) -> AnyAnswer:
        """Raises NodeAway: whether it was heard is not known then."""
        if not self.is_open or len(self._asked) >= UNANSWERED_MAX:
            raise NodeAway("too much is unanswered" if self.is_open else "the connection has ended")
        self._last_number += 1
        number = self._last_number
        answered = self._asked[number] = Awaited()
        self._say(self._channel.signed(Numbered(number, messages.encode(request))))
        timer = self._loop.call_later(patience_s, self._give_up, number, self._loop.time())
        try:
            return await answered
        finally:
            self._asked.pop(number, None)
            # Whoever waits no more has not heard anything either: those who ask again and again,
            # and lose patience each time, would never find out.
            if not answered.cancelled():
                timer.cancel()

    def close(self) -> None:
        self._end("the connection was given up")

    def _give_up(self, number: int, asked_s: float) -> None:
        answered = self._asked.pop(number, None)
        if answered is not None:
            answered.fail(NodeAway("it does not answer in time"))
        if self._heard_s <= asked_s:
            # It may be that nothing arrives there any more, and neither end is told. Another
            # connection may well do, and what is said twice does no harm.
            self.close()

    def _say(self, said: bytes) -> None:
        if self._is_write_planned:
            self._said.append(said)
            return
        self._is_write_planned = True
        self._loop.call_soon(self._write)
        self._channel.write(said)

    def _write(self) -> None:
        self._is_write_planned = False
        if self._said:
            said, self._said = self._said, []
            if self.is_open:
                self._channel.write(b"".join(said))

    def _hear(self, heard: AnyAnswer) -> None:
        self._heard_s = self._loop.time()
        if not isinstance(heard, Numbered):
            self._end("it does not know such calls")
            return
        answered = self._asked.get(heard.number)
        if answered is None or answered.done():
            return
        try:
            answer = messages.decode_answer(heard.said)
        except msgspec.DecodeError as error:
            # What a node of another version answers may be unknown here, and the next calls are
            # not.
            answered.fail(NodeAway(f"its answer is not understood: {error}"))
        else:
            answered.give(answer)

    def _end(self, why: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._channel.close()
        for answered in tuple(self._asked.values()):
            answered.fail(NodeAway(why))

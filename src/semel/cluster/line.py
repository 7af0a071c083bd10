"""A connection to another node on which many calls are under way at once.

Each call carries a number, and so does its answer: whoever is answered soon does not wait for those
who asked before and need a sync. What is said in one pass of the loop leaves in one write.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from semel.cluster import messages
from semel.cluster.channel import Channel, NodeAway
from semel.cluster.messages import AnyAnswer, AnyRequest, Numbered

StartTask = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""In a group that owns it."""

UNANSWERED_MAX: Final = 4_000
"""Calls. A node that answers none of so many is away."""


class Line:
    def __init__(self, channel: Channel, start_task: StartTask) -> None:
        """Takes over a channel on which nothing is under way; nobody else may ask on it."""
        self._channel = channel
        self._asked: dict[int, asyncio.Future[AnyAnswer]] = {}
        self._last_number = 0
        self._heard_s = 0.0
        """When the last answer came."""
        self._said: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._reading = start_task(self._read())

    @property
    def is_open(self) -> bool:
        return not self._reading.done()

    async def ask(self, request: AnyRequest, patience_s: float) -> AnyAnswer:
        """Raises NodeAway: whether it was heard is not known then."""
        if not self.is_open or len(self._asked) >= UNANSWERED_MAX:
            raise NodeAway("too much is unanswered" if self.is_open else "the connection has ended")
        self._last_number += 1
        number = self._last_number
        answered: asyncio.Future[AnyAnswer] = self._loop.create_future()
        self._asked[number] = answered
        if not self._said:
            self._loop.call_soon(self._write)
        self._said.append(self._channel.signed(Numbered(number, messages.encode(request))))
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
        self._reading.cancel()

    def _give_up(self, number: int, asked_s: float) -> None:
        answered = self._asked.pop(number, None)
        if answered is not None and not answered.done():
            answered.set_exception(NodeAway("it does not answer in time"))
        if self._heard_s <= asked_s:
            # It may be that nothing arrives there any more, and neither end is told. Another
            # connection may well do, and what is said twice does no harm.
            self.close()

    def _write(self) -> None:
        said, self._said = self._said, []
        if self.is_open:
            self._channel.write(b"".join(said))

    async def _read(self) -> None:
        why = "the connection has ended"
        try:
            while True:
                heard = await self._channel.next_answer()
                self._heard_s = self._loop.time()
                if not isinstance(heard, Numbered):
                    why = "it does not know such calls"
                    return
                answered = self._asked.get(heard.number)
                if answered is not None and not answered.done():
                    _hear(answered, heard.said)
        except NodeAway as error:
            why = str(error)
        finally:
            self._channel.close()
            for answered in self._asked.values():
                if not answered.done():
                    answered.set_exception(NodeAway(why))


def _hear(answered: asyncio.Future[AnyAnswer], said: bytes) -> None:
    """What a node of another version answers may be unknown here, and the next calls are not."""
    try:
        answered.set_result(messages.decode_answer(said))
    except msgspec.DecodeError as error:
        answered.set_exception(NodeAway(f"its answer is not understood: {error}"))

"""A task's side of turns: what it asks the driver before it writes."""

import asyncio
from contextlib import suppress

from semel.errors import MESSAGE_LENGTH_MAX, ProtocolError
from semel.spark.turn_messages import Hello, TurnAddress, hear_answer, keep_alive, say
from semel.spark.turns import (
    Attempt,
    Finish,
    Finished,
    GiveBack,
    GiveUp,
    Granted,
    Move,
    Refused,
    Take,
    TurnRefused,
)
from semel.types import TopicPartition

_CONNECT_TIMEOUT_S = 10


class TaskTurns:
    """`listen` has to run from `connect` to `close`."""

    def __init__(self, address: TurnAddress, attempt: Attempt) -> None:
        self._address = address
        self._attempt = attempt
        self._granted: dict[TopicPartition, asyncio.Future[int]] = {}
        self._finished: asyncio.Future[None] | None = None
        self._failure: TurnRefused | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self) -> None:
        host, port, secret = self._address
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                self._reader, self._writer = await asyncio.open_connection(host, port)
        except OSError as error:
            raise TurnRefused(
                f"the driver cannot be reached at {host}:{port}: {str(error) or 'no answer'}; "
                f"tasks of exactly_once ask it for their turns, at spark.driver.host and any free "
                f"port, or at the ports from driver_port on"
            ) from error
        keep_alive(self._writer)
        say(self._writer, Hello(secret, self._attempt))

    async def close(self) -> None:
        assert self._writer is not None, "it is connected"
        self._writer.close()

    async def take(self, partition: TopicPartition, record_count: int) -> int:
        """The first sequence of so many records, once nobody else writes there."""
        self._check()
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._granted[partition] = granted
        self._say(Take(partition, record_count))
        return await granted

    def give_back(self, partition: TopicPartition) -> None:
        self._say(GiveBack(partition))

    async def finish(self) -> None:
        """All that was taken is written; the driver knows when this returns."""
        self._check()
        self._finished = asyncio.get_running_loop().create_future()
        self._say(Finish())
        await self._finished

    async def give_up(self, error: BaseException) -> None:
        """Tell the driver why: Spark tells it of the last attempt only, which is refused."""
        kind = type(error)
        reason = f"{kind.__module__}.{kind.__qualname__}: {error}"
        self._say(GiveUp(reason[:MESSAGE_LENGTH_MAX]))

    async def listen(self) -> None:
        """Hand out the answers; what is asked for without one fails when this ends."""
        assert self._reader is not None, "it is connected"
        reason = "the driver has gone, or has ended this batch"
        try:
            # Half a line is what a driver leaves that dies.
            with suppress(OSError, ProtocolError):
                while answer := await hear_answer(self._reader):
                    if isinstance(answer, Refused):
                        reason = answer.reason
                        break
                    self._hand_out(answer)
        finally:
            self._failure = TurnRefused(reason)
            for future in (*self._granted.values(), self._finished):
                if future is not None and not future.done():
                    future.set_exception(self._failure)

    def _hand_out(self, answer: Granted | Finished) -> None:
        match answer:
            case Granted(partition, sequence):
                granted = self._granted.pop(partition)
                if not granted.done():  # Else whoever asked was cancelled.
                    granted.set_result(sequence)
            case Finished():
                if self._finished is not None and not self._finished.done():
                    self._finished.set_result(None)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _say(self, move: Move) -> None:
        assert self._writer is not None, "it is connected"
        say(self._writer, move)

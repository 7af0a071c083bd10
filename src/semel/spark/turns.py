"""Whose turn it is to write to a partition: asked by tasks, said by the driver.

All tasks of a micro-batch write under one producer id and epoch, whose sequences have to follow
each other in each partition. A task that has something for a partition takes a turn, which brings
the next sequence, writes, and gives the turn back. Spark may start a task twice; of its attempts
the first that gets a turn is the only one that ever gets any.
"""

import asyncio
import hmac
import json
import socket
from collections import defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from semel.errors import ConfigError, SemelError
from semel.types import SEQUENCE_COUNT, TopicPartition
from semel.world import SystemRandomness

_SECRET_SIZE = 16
_CONNECT_TIMEOUT_S = 10
_KEEP_ALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class TurnRefused(SemelError):
    """This attempt of a task may not write, or nobody may any more."""


class Address(NamedTuple):
    """Where turns are asked for, and what shows that one may."""

    host: str
    port: int
    secret: str


class Attempt(NamedTuple):
    """One start of a task."""

    task_number: int
    attempt_id: int


Counts = Mapping[TopicPartition, int]
"""Records by the partition they were written to."""


class _Waiting(NamedTuple):
    connection: "_Connection"
    record_count: int


class Turns:
    """At the driver, for one transaction."""

    def __init__(self) -> None:
        self._secret = SystemRandomness().token_bytes(_SECRET_SIZE).hex()
        self._server: asyncio.Server | None = None
        self._next_sequences: dict[TopicPartition, int] = defaultdict(int)
        self._holders: dict[TopicPartition, _Connection] = {}
        self._waiting: dict[TopicPartition, deque[_Waiting]] = defaultdict(deque)
        self._connections: set[_Connection] = set()
        self._writers: dict[int, _Connection] = {}
        """By the number of the task, the attempt that has got turns."""
        self._reason: str | None = None
        """Why there are no more turns."""

    async def open(self, host: str, bind_host: str) -> Address:
        """`host` is the name by which tasks know this machine."""
        loop = asyncio.get_running_loop()
        try:
            # One address, as a port is free at one of them and may be taken at another.
            found = await loop.getaddrinfo(bind_host, 0, type=socket.SOCK_STREAM)
            self._server = await asyncio.start_server(self._serve, str(found[0][4][0]), 0)
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {bind_host}, where spark.driver.bindAddress or "
                f"spark.driver.host says that the driver is: {error}"
            ) from error
        return Address(host, self._server.sockets[0].getsockname()[1], self._secret)

    async def close(self) -> None:
        """Nothing that comes from now on counts."""
        assert self._server is not None, "it was opened"
        self._reason = self._reason or "the driver has ended this batch"
        self._server.close()
        for each in self._connections:
            each.writer.close()

    def check(self, written: Mapping[Attempt, Counts]) -> None:
        """Whether what was written is what these attempts say, and no one else has written."""
        for number, connection in self._writers.items():
            known = connection.counts if connection.is_finished else None
            if known != written.get(connection.attempt):
                raise TurnRefused(f"task {number} has written what its result does not say")
        if len(written) != len(self._writers):
            raise TurnRefused("a task says that it has written, but it had no turn")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        keep_alive(writer)
        connection = None
        try:
            # A line that is not as it should be ends the connection, and with it a task's turns.
            with suppress(OSError, ValueError, LookupError, TypeError):
                hello = json.loads(await reader.readline())
                if hmac.compare_digest(hello["secret"], self._secret):
                    connection = _Connection(writer, Attempt(*hello["attempt"]))
                    self._connections.add(connection)
                    while line := await reader.readline():
                        self._act(connection, **json.loads(line))
        finally:
            if connection is not None:
                self._leave(connection)
            writer.close()

    def _act(self, connection: "_Connection", act: str, place: Any, count: int) -> None:
        partition = TopicPartition(*place)
        if self._reason is not None:
            connection.refuse(self._reason)
        elif connection.is_refused:
            return
        elif connection.is_finished:
            raise ValueError("it has finished")
        elif act == "take":
            self._waiting[partition].append(_Waiting(connection, count))
            self._next_turn(partition)
        elif act == "give":
            if self._holders.get(partition) is not connection:
                raise ValueError("it is not its turn")
            del self._holders[partition]
            self._next_turn(partition)
        elif act == "finish" and connection not in self._holders.values():
            connection.is_finished = True
            connection.say(finished=True)
        else:
            raise ValueError(f"{act} is not to be done now")

    def _next_turn(self, partition: TopicPartition) -> None:
        queue = self._waiting[partition]
        while queue and partition not in self._holders:
            connection, count = queue.popleft()
            number = connection.attempt.task_number
            if self._writers.setdefault(number, connection) is not connection:
                connection.refuse(
                    f"task {number} was started again, and its first attempt has written: "
                    f"the driver has to begin the batch anew"
                )
                continue
            sequence = self._next_sequences[partition]
            self._next_sequences[partition] = (sequence + count) % SEQUENCE_COUNT
            self._holders[partition] = connection
            connection.counts[partition] = connection.counts.get(partition, 0) + count
            connection.say(place=partition, sequence=sequence)

    def _leave(self, connection: "_Connection") -> None:
        self._connections.discard(connection)
        for queue in self._waiting.values():
            for each in [each for each in queue if each.connection is connection]:
                queue.remove(each)
        if not connection.counts or connection.is_finished:
            return
        # It is not known what it has written, so that nothing may be committed.
        self._reason = self._reason or "a task of this batch has ended within its turns"
        for other in self._connections:
            if not other.is_finished:
                other.refuse(self._reason)


class _Connection:
    def __init__(self, writer: asyncio.StreamWriter, attempt: Attempt) -> None:
        self.writer = writer
        self.attempt = attempt
        self.counts: dict[TopicPartition, int] = {}
        self.is_finished = False
        self.is_refused = False

    def say(self, **words: Any) -> None:
        self.writer.write(json.dumps(words).encode() + b"\n")

    def refuse(self, reason: str) -> None:
        if not self.is_refused:
            self.is_refused = True
            self.say(refused=reason)


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Notice within a minute that the other machine is gone without a word."""
    connected = writer.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class TaskTurns:
    """At a task: the other end. `listen` has to run from `connect` to `close`."""

    def __init__(self, address: Address, attempt: Attempt) -> None:
        self._address = address
        self._attempt = attempt
        self._answers: dict[TopicPartition, asyncio.Future[int]] = {}
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
                f"the driver cannot be reached at {host}:{port}: {error or 'no answer'}; tasks of "
                f"exactly_once ask it for their turns, at spark.driver.host and a free port"
            ) from error
        keep_alive(self._writer)
        self._say(secret=secret, attempt=self._attempt)

    async def close(self) -> None:
        assert self._writer is not None, "it is connected"
        self._writer.close()

    async def take(self, place: TopicPartition, record_count: int) -> int:
        """The first sequence of so many records, once nobody else writes there."""
        self._check()
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._answers[place] = answer
        self._say(act="take", place=place, count=record_count)
        return await answer

    def give_back(self, place: TopicPartition) -> None:
        self._say(act="give", place=place, count=0)

    async def finish(self) -> None:
        """All that was taken is written; the driver knows when this returns."""
        self._check()
        self._finished = asyncio.get_running_loop().create_future()
        self._say(act="finish", place=("", 0), count=0)
        await self._finished

    async def listen(self) -> None:
        """Hand out the answers; what is asked for without one fails when this ends."""
        assert self._reader is not None, "it is connected"
        reason = "the driver has gone, or has ended this batch"
        try:
            # Half a line is what a driver leaves that dies.
            with suppress(OSError, ValueError):
                while line := await self._reader.readline():
                    answer = json.loads(line)
                    if "refused" in answer:
                        reason = answer["refused"]
                        break
                    self._hand_out(answer)
        finally:
            self._failure = TurnRefused(reason)
            for future in (*self._answers.values(), self._finished):
                if future is not None and not future.done():
                    future.set_exception(self._failure)

    def _hand_out(self, answer: dict[str, Any]) -> None:
        if "finished" in answer:
            if self._finished is not None and not self._finished.done():
                self._finished.set_result(None)
            return
        asked = self._answers.pop(TopicPartition(*answer["place"]))
        if not asked.done():  # Else whoever asked was cancelled.
            asked.set_result(answer["sequence"])

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _say(self, **words: Any) -> None:
        assert self._writer is not None, "it is connected"
        self._writer.write(json.dumps(words).encode() + b"\n")

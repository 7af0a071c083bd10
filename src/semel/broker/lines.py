"""Lines to other nodes: one to each, opened when something is to be said there."""

import asyncio
from typing import Protocol

from semel.at_once import StartTask
from semel.cluster.channel import Channel, Connect, NodeAway
from semel.cluster.keys import KnownKey
from semel.cluster.line import Line
from semel.cluster.messages import AnyAnswer, AnyRequest
from semel.world import Randomness

Address = tuple[str, int]


class Asking(Protocol):
    async def ask(self, address: Address, request: AnyRequest, patience_s: float) -> AnyAnswer:
        """Raises NodeAway: whether it was heard is not known then, and it may be asked again."""

    def tell(self, address: Address, request: AnyRequest) -> bool:
        """Say what needs no answer; whether it is there before whatever is said later on other
        ways. If not, it may arrive or not."""


class Lines:
    def __init__(
        self,
        key: KnownKey,
        randomness: Randomness,
        connect: Connect,
        start_task: StartTask,
        patience_s: float,
        *,
        stay_on_machine: bool = False,
    ) -> None:
        """`patience_s` is for opening one."""
        self._key = key
        self._randomness = randomness
        self._connect = connect
        self._start_task = start_task
        self._patience_s = patience_s
        self._stay_on_machine = stay_on_machine
        self._lines: dict[Address, Line] = {}
        self._opening: dict[Address, asyncio.Future[Line]] = {}

    async def ask(self, address: Address, request: AnyRequest, patience_s: float) -> AnyAnswer:
        """Raises NodeAway: whether it was heard is not known then, and it may be asked again."""
        line = self._lines.get(address)
        if line is None or not line.is_open:
            line = await self._line(address)
        return await line.ask(request, patience_s)

    def tell(self, address: Address, request: AnyRequest) -> bool:
        line = self._lines.get(address)
        return line is not None and line.tell(request)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    async def _line(self, address: Address) -> Line:
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.get_running_loop().create_future()
            # Nobody may be left who waits for it.
            opening.add_done_callback(_look_at)
            self._opening[address] = opening
            self._start_task(self._open(address, opening))
        return await asyncio.shield(opening)

    async def _open(self, address: Address, opening: asyncio.Future[Line]) -> None:
        try:
            channel = await Channel.open(
                self._connect,
                *address,
                self._key.newest,
                self._randomness,
                self._patience_s,
                stays_on_machine=self._stay_on_machine,
            )
        except NodeAway as error:
            opening.set_exception(error)
        else:
            line = self._lines[address] = Line(channel)
            opening.set_result(line)
        finally:
            del self._opening[address]
            if not opening.done():
                opening.set_exception(NodeAway("it was given up"))


def _look_at(opening: asyncio.Future[Line]) -> None:
    if not opening.cancelled():
        opening.exception()

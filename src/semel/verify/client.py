"""One incarnation of a simulated client: a process with its own dice and its own patience."""

import asyncio
from random import Random

from semel.verify.link import Link, Lost, Surroundings
from semel.verify.simulated_loop import Process

BACKOFF_S_MAX = 0.1


class Client:
    def __init__(self, name: str, surroundings: Surroundings, seed: int) -> None:
        self.name = name
        self.surroundings = surroundings
        self.history = surroundings.history
        self.rng = Random(f"client {name} {seed}")
        self.process = Process(name)
        self.request_count = 0
        self.is_replaced = False
        """Another has taken its place, and it does not know."""
        self.asleep_until_s = 0.0

    async def link(self) -> Link:
        """An open connection, however long that takes."""
        while True:
            link = Link(self.surroundings, self.process, self.rng)
            try:
                await link.open()
            except Lost:
                await self.back_off()
            else:
                return link

    async def back_off(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.001, BACKOFF_S_MAX))

    async def think(self) -> None:
        """A pause, short more often than not."""
        await asyncio.sleep(self.rng.expovariate(1 / self.rng.choice((0.001, 0.005, 0.05))))

    async def breathe(self) -> None:
        """A client that was put to sleep goes no further until it wakes up."""
        pause_s = self.asleep_until_s - self.now_s()
        if pause_s > 0:
            await asyncio.sleep(pause_s)

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

"""Who is at work in a run: a population of clients, in which the dead are replaced."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from semel.verify.workloads.client import Client, Surroundings
from semel.verify.world.loop import SimulatedLoop

Work = Callable[[Client], Coroutine[Any, Any, None]]
Cast = Callable[[Random], dict[str, Work]]
"""What there is to do in a run, by the name of who does it."""

PRODUCING = "producer"
RIVALLED = f"{PRODUCING}-of-"
"""How the names of those begin who produce in transactions."""
READING = ("reader", "watcher", "auditor")
"""And of those who store nothing."""


@dataclass
class Role:
    """One place in the population: whoever fills it does this work."""

    name: str
    work: Work
    incarnation: int = 0
    client: Client | None = None
    task: "asyncio.Task[None] | None" = None
    deaths_left: int = 3


class Population:
    def __init__(self, seed: int, surroundings: Surroundings, cast: Cast) -> None:
        self._seed = seed
        self._surroundings = surroundings
        self._rng = Random(f"workload {seed}")
        self._clients: list[Client] = []
        self.roles = [
            Role(name, work, deaths_left=self._rng.randint(0, 3))
            for name, work in cast(self._rng).items()
        ]

    def start(self) -> None:
        for role in self.roles:
            self._fill(role)

    def kill_one(self) -> None:
        """Someone dies and is replaced by a newcomer who knows nothing of it."""
        mortal = [role for role in self.roles if role.deaths_left]
        if mortal:
            role = self._rng.choice(mortal)
            role.deaths_left -= 1
            self._end(role)
            self._fill(role)

    def rival_one(self) -> None:
        """A newcomer takes the place of someone who is alive, and maybe only asleep."""
        role = self._rng.choice([role for role in self.roles if role.name in self.rivalled])
        assert role.client is not None
        if role.task is not None and role.task.done():
            return
        role.client.is_replaced = True
        if self._rng.random() < 0.6:
            asleep_s = self._rng.choice((0.05, 0.5, 3.0))
            role.client.asleep_until_s = role.client.now_s() + self._rng.uniform(0, asleep_s)
        self._fill(role)

    def send_one(self, name: str, work: Work) -> None:
        """Who comes for this alone."""
        role = Role(name, work, deaths_left=0)
        self.roles.append(role)
        self._fill(role)

    def hush(self, duration_s: float) -> None:
        """Whoever writes is frozen for a while, and whoever reads goes on."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        for role in self.roles:
            if role.client is not None and not role.name.startswith(READING):
                process = role.client.process
                if process.is_alive and not process.is_frozen:
                    loop.freeze(process, duration_s)

    @property
    def rivalled(self) -> list[str]:
        """Roles that may be filled twice at a time."""
        return [role.name for role in self.roles if role.name.startswith(RIVALLED)]

    async def finish_producing(self) -> None:
        """Return when every producer has had each of its batches acknowledged."""
        for role in self.roles:
            if role.name.startswith(PRODUCING):
                assert role.task is not None
                await asyncio.wait([role.task])

    def end(self) -> None:
        for role in self.roles:
            self._end(role)

    def bury(self) -> None:
        for client in self._clients:
            client.process.bury()

    def failures(self) -> list[str]:
        """Clients that did not expect what they were told."""
        return [
            f"{role.name}: {role.task.exception()!r}"
            for role in self.roles
            if role.task and role.task.done() and role.task.exception()
        ]

    def _fill(self, role: Role) -> None:
        role.incarnation += 1
        role.client = Client(f"{role.name}.{role.incarnation}", self._surroundings, self._seed)
        self._clients.append(role.client)
        role.task = role.client.process.start(role.work(role.client))

    def _end(self, role: Role) -> None:
        assert role.client is not None
        role.client.process.die()
        self._surroundings.network.client_died(role.client.process)

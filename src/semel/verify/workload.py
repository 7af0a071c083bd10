"""Who is at work in a run: a population of clients, in which the dead are replaced."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from semel.types import TopicPartition
from semel.verify.administrator import Administrator
from semel.verify.client import Client
from semel.verify.link import Surroundings
from semel.verify.members import Member
from semel.verify.offsets import Auditor, Bookkeeper
from semel.verify.producers import ACKS_ALL, ACKS_NONE, ACKS_ONE, PlainProducer, Producer
from semel.verify.readers import Reader

TOPICS = {"alpha": 3, "beta": 1}
PARTITIONS = [
    TopicPartition(topic, index) for topic, count in TOPICS.items() for index in range(count)
]
GROUP = "crew"
SHARED = [partition for partition in PARTITIONS if partition.topic == "alpha"]

Work = Callable[[Client], Coroutine[Any, Any, None]]


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
    def __init__(self, seed: int, surroundings: Surroundings) -> None:
        self._seed = seed
        self._surroundings = surroundings
        self._rng = Random(f"workload {seed}")
        self._clients: list[Client] = []
        self.roles = [
            Role(name, work, deaths_left=self._rng.randint(0, 3))
            for name, work in self._works().items()
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

    async def finish_producing(self) -> None:
        """Return when every producer has had each of its batches acknowledged."""
        for role in self.roles:
            if role.name.startswith("producer"):
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

    def _works(self) -> dict[str, Work]:
        rng = self._rng
        works: dict[str, Work] = {}
        for number in range(rng.randint(1, 3)):
            works[f"producer-all-{number}"] = self._producing(ACKS_ALL)
        works["producer-one"] = self._producing(ACKS_ONE)
        works["producer-careless"] = self._producing(ACKS_ALL, is_careless=True)
        for acks in (ACKS_ALL, ACKS_ONE, ACKS_NONE):
            works[f"producer-plain{acks}"] = self._plain(acks)
        for number in range(2):
            works[f"reader-{number}"] = lambda client: Reader(client, PARTITIONS).run()
        for number in range(rng.randint(1, 3)):
            works[f"member-{number}"] = self._membership(
                f"instance-{number}" if rng.random() < 0.4 else None
            )
        works["auditor"] = lambda client: Auditor(client, GROUP, SHARED).run()
        works["bookkeeper"] = lambda client: Bookkeeper(client, SHARED[0]).run()
        works["administrator"] = lambda client: Administrator(client).run()
        return works

    def _producing(self, acks: int, *, is_careless: bool = False) -> Work:
        partitions = self._rng.sample(PARTITIONS, self._rng.randint(1, 3))
        batch_count = self._rng.randint(15, 45)
        return lambda client: Producer(
            client, partitions, acks, batch_count, is_careless=is_careless
        ).run()

    def _plain(self, acks: int) -> Work:
        partitions = self._rng.sample(PARTITIONS, 2)
        return lambda client: PlainProducer(client, partitions, acks, 15).run()

    def _membership(self, instance_id: str | None) -> Work:
        return lambda client: Member(client, GROUP, SHARED, instance_id).run()

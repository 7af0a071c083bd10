"""Clients of all kinds on several nodes, who go on by themselves when the leader is lost."""

from collections.abc import Coroutine
from random import Random
from typing import Any

from semel.records.records import Record
from semel.types import TopicPartition
from semel.verify.workloads.administrators import Administrator, Deleter, Operator
from semel.verify.workloads.client import Client
from semel.verify.workloads.copiers import Copier
from semel.verify.workloads.groups import Auditor, Bookkeeper, Consumer
from semel.verify.workloads.population import PRODUCING, RIVALLED, Work
from semel.verify.workloads.producers import ACKS_ALL, Producer
from semel.verify.workloads.readers import CommittedReader, Reader
from semel.verify.workloads.transactional_producers import (
    Errands,
    TransactionalProducer,
    habits_of,
)
from semel.verify.workloads.watchers import Overreacher, Watcher
from semel.verify.workloads.workload import Workload
from semel.verify.world.cluster import CONFIG
from semel.verify.world.loop import START_MS

TOPICS = {"input": 1, "output": 3}
INPUT = TopicPartition("input", 0)
OUTPUTS = [TopicPartition("output", index) for index in range(TOPICS["output"])]
COPIERS, CREW = "copiers", "crew"
ENDLESS = 10**9
PADDING_SIZES = (0, 0, 100, 400, 2_000)


class Shift:
    """Work that goes on until it is over, and is then brought to its end."""

    def __init__(self) -> None:
        self._errands: list[Errands] = []
        self._producers: list[Producer] = []
        self._is_over = False

    def errands(self) -> Errands:
        errands = Errands(ENDLESS)
        self._errands.append(errands)
        return errands

    async def produce(self, client: Client, partitions: list[TopicPartition]) -> None:
        chosen = client.rng.sample(partitions, client.rng.randint(1, min(3, len(partitions))))
        await self.run(Producer(client, chosen, ACKS_ALL, ENDLESS, contents=small_contents))

    async def run(self, producer: Producer) -> None:
        self._producers.append(producer)
        if self._is_over:
            producer.wind_up()
        await producer.run()

    def end(self) -> None:
        self._is_over = True
        for errands in self._errands:
            errands.left = 0
        for producer in self._producers:
            producer.wind_up()


def small_contents(client: Client, partition: TopicPartition, labels: Any) -> list[Record]:
    return [
        Record(None, f"{label} ".encode() + bytes(client.rng.choice(PADDING_SIZES)), START_MS)
        for label in labels
    ]


def failover(shift: Shift) -> Workload:
    def cast(rng: Random) -> dict[str, Work]:
        works: dict[str, Work] = {}
        works[f"{PRODUCING}-input"] = _producing(shift, [INPUT])
        works[f"{PRODUCING}-plain"] = _producing(shift, [INPUT, *OUTPUTS])
        brief: list[TopicPartition] = []
        for name in ("a", "b", "c"):
            works[RIVALLED + name] = _in_transactions(rng, name, brief, shift)
        works[RIVALLED + "copies"] = _copying(rng, shift)
        if rng.random() < 0.3:
            works["deleter"] = lambda client: Deleter(client, brief).run()
        if rng.random() < 0.3:
            works["operator"] = lambda client: Operator(client, OUTPUTS).run()
        works["administrator"] = slowly(lambda client: Administrator(client).run(), 20.0)
        works["reader"] = slowly(lambda client: Reader(client, [INPUT, *OUTPUTS]).run())
        works["reader-committed"] = slowly(
            lambda client: CommittedReader(client, [INPUT, *OUTPUTS]).run()
        )
        for number in range(2):
            instance_id = f"instance-{number}" if rng.random() < 0.4 else None
            works[f"member-{number}"] = _taking_part(instance_id)
        works["auditor"] = lambda client: Auditor(client, CREW, OUTPUTS).run()
        works["bookkeeper"] = lambda client: Bookkeeper(client, INPUT).run()
        committed = [(COPIERS, INPUT), *((CREW, each) for each in OUTPUTS)]
        for number in range(4):
            works[f"watcher-{number}"] = slowly(
                lambda client: Watcher(client, [INPUT, *OUTPUTS], committed).run()
            )
        works["overreacher"] = slowly(
            lambda client: Overreacher(client, INPUT, CONFIG.message_max_bytes + 1).run(), 100.0
        )
        return works

    return Workload(
        TOPICS,
        CREW,
        OUTPUTS,
        cast,
        rest_s=5.0,
        is_read_at_rest=True,
        config=CONFIG,
    )


def _producing(shift: Shift, partitions: list[TopicPartition]) -> Work:
    return slowly(lambda client: shift.produce(client, partitions), 10.0)


def _in_transactions(rng: Random, name: str, brief: list[TopicPartition], shift: Shift) -> Work:
    habits = habits_of(rng, name)
    partitions = rng.sample(OUTPUTS, rng.randint(1, 3))
    errands = shift.errands()
    return lambda client: TransactionalProducer(
        client, habits, partitions, errands, brief, contents=small_contents
    ).run()


def _copying(rng: Random, shift: Shift) -> Work:
    habits = habits_of(rng, "copies")
    errands = shift.errands()
    is_member = rng.random() < 0.5
    return lambda client: Copier(
        client,
        habits,
        INPUT,
        OUTPUTS,
        errands,
        COPIERS,
        is_member=is_member,
        contents=small_contents,
    ).run()


def _taking_part(instance_id: str | None) -> Work:
    return slowly(lambda client: Consumer(client, CREW, OUTPUTS, instance_id).run())


def slowly(work: Work, pace: float = 4.0) -> Work:
    def slow(client: Client) -> Coroutine[Any, Any, None]:
        client.pace = pace
        return work(client)

    return slow

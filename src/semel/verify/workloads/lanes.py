"""Clients of several lanes: copiers and others whose transactions take in partitions and offsets of
many lanes, and those who watch what they leave behind.

Most of what is done here is transactions over lanes, so that much of it is done in little time.
"""

from collections.abc import Coroutine
from random import Random
from typing import Any, Final

from semel.types import TopicPartition
from semel.verify.workloads.administrators import Deleter, Operator
from semel.verify.workloads.client import Client
from semel.verify.workloads.copiers import Copier
from semel.verify.workloads.failover import (
    ENDLESS,
    Shift,
    slowly,
    small_contents,
)
from semel.verify.workloads.groups import Auditor
from semel.verify.workloads.population import PRODUCING, RIVALLED, Work
from semel.verify.workloads.producers import ACKS_ALL, Producer
from semel.verify.workloads.readers import CommittedReader, Reader
from semel.verify.workloads.transactional_producers import TransactionalProducer, habits_of
from semel.verify.workloads.watchers import Watcher
from semel.verify.workloads.workload import Workload
from semel.verify.world.cluster import CONFIG

LANES: Final = 4
TOPICS: Final = {"input": 2, "output": 6}
INPUTS: Final = [TopicPartition("input", index) for index in range(TOPICS["input"])]
OUTPUTS: Final = [TopicPartition("output", index) for index in range(TOPICS["output"])]
COPIER_COUNT: Final = 8
FEEDING_PACE: Final = 20.0
"""What is fed is read by several, each of whom takes little at a time."""
LOOKS_SHARE: Final = 0.2
"""How often an operator looks for what it could abort."""


def lanes(shift: Shift) -> Workload:
    def cast(rng: Random) -> dict[str, Work]:
        works: dict[str, Work] = {}
        for number, partition in enumerate(INPUTS):
            works[f"{PRODUCING}-input-{number}"] = _feeding(shift, partition)
        brief: list[TopicPartition] = []
        for name in ("a",):
            works[RIVALLED + name] = _in_transactions(rng, name, brief, shift)
        for number in range(COPIER_COUNT):
            works[f"{RIVALLED}copies-{number}"] = _copying(rng, number, shift)
        if rng.random() < 0.3:
            works["deleter"] = lambda client: Deleter(client, brief).run()
        works["operator"] = slowly(lambda client: Operator(client, OUTPUTS, LOOKS_SHARE).run(), 5.0)
        for number, partition in enumerate(OUTPUTS):
            works[f"reader-committed-{number}"] = _reading_committed(partition)
        works["reader"] = slowly(lambda client: Reader(client, OUTPUTS[:1]).run(), 40.0)
        committed = [(_group(number), INPUTS[number % 2]) for number in range(COPIER_COUNT)]
        works["auditor"] = slowly(lambda client: Auditor(client, _group(0), INPUTS[:1]).run(), 40.0)
        for number in range(2):
            works[f"watcher-{number}"] = slowly(
                lambda client: Watcher(client, OUTPUTS, committed).run(), 8.0
            )
        return works

    return Workload(TOPICS, _group(0), [], cast, rest_s=12.0, is_read_at_rest=True, config=CONFIG)


def _group(number: int) -> str:
    return f"copiers-{number}"


def _feeding(shift: Shift, partition: TopicPartition) -> Work:
    def work(client: Client) -> Coroutine[Any, Any, None]:
        producer = Producer(client, [partition], ACKS_ALL, ENDLESS, contents=small_contents)
        return shift.run(producer)

    return slowly(work, FEEDING_PACE)


def _in_transactions(rng: Random, name: str, brief: list[TopicPartition], shift: Shift) -> Work:
    habits = habits_of(rng, name, is_reckless=True)
    errands = shift.errands()
    return lambda client: TransactionalProducer(
        client, habits, OUTPUTS, errands, brief, contents=small_contents
    ).run()


def _copying(rng: Random, number: int, shift: Shift) -> Work:
    habits = habits_of(rng, f"copies-{number}", is_reckless=True)
    errands = shift.errands()
    is_member = rng.random() < 0.2
    return lambda client: Copier(
        client,
        habits,
        INPUTS[number % len(INPUTS)],
        OUTPUTS,
        errands,
        _group(number),
        is_member=is_member,
        contents=small_contents,
    ).run()


def _reading_committed(partition: TopicPartition) -> Work:
    return slowly(lambda client: CommittedReader(client, [partition]).run(), 40.0)

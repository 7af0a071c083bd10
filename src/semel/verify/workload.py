"""What the clients of a run do: here, everything but transactions."""

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from semel.types import TopicPartition
from semel.verify.administrator import Administrator
from semel.verify.members import Member
from semel.verify.offsets import Auditor, Bookkeeper
from semel.verify.population import Cast, Work
from semel.verify.producers import ACKS_ALL, ACKS_NONE, ACKS_ONE, PlainProducer, Producer
from semel.verify.readers import Reader


class Ordeal(NamedTuple):
    """What a run has to bear."""

    faults: tuple[str, ...] = ()
    """By their names; if there are none, some of those that are not about clocks."""
    duration_s: tuple[float, float] = (0.4, 2.5)
    """The least and the most."""
    pause_s_mean: float = 0.12
    """Between two faults."""


class Workload(NamedTuple):
    topics: Mapping[str, int]
    """Names, and how many partitions each has."""
    group: str
    shared: list[TopicPartition]
    """What the group commits offsets of."""
    cast: Cast
    rest_s: float
    is_read_at_rest: bool
    """Also before the power is lost for the last time, so that it is not this that ends things."""
    ordeal: Ordeal = Ordeal()

    @property
    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, index)
            for topic, count in self.topics.items()
            for index in range(count)
        ]


TOPICS = {"alpha": 3, "beta": 1}
PARTITIONS = [
    TopicPartition(topic, index) for topic, count in TOPICS.items() for index in range(count)
]
GROUP = "crew"
SHARED = [partition for partition in PARTITIONS if partition.topic == "alpha"]


def _cast(rng: Random) -> dict[str, Work]:
    works: dict[str, Work] = {}
    for number in range(rng.randint(1, 3)):
        works[f"producer-all-{number}"] = producing(rng, PARTITIONS, ACKS_ALL)
    works["producer-one"] = producing(rng, PARTITIONS, ACKS_ONE)
    works["producer-careless"] = producing(rng, PARTITIONS, ACKS_ALL, is_careless=True)
    for acks in (ACKS_ALL, ACKS_ONE, ACKS_NONE):
        works[f"producer-plain{acks}"] = _plain(rng, acks)
    for number in range(2):
        works[f"reader-{number}"] = lambda client: Reader(client, PARTITIONS).run()
    for number in range(rng.randint(1, 3)):
        works[f"member-{number}"] = _membership(
            f"instance-{number}" if rng.random() < 0.4 else None
        )
    works["auditor"] = lambda client: Auditor(client, GROUP, SHARED).run()
    works["bookkeeper"] = lambda client: Bookkeeper(client, SHARED[0]).run()
    works["administrator"] = lambda client: Administrator(client).run()
    return works


def producing(
    rng: Random, partitions: list[TopicPartition], acks: int, *, is_careless: bool = False
) -> Work:
    chosen = rng.sample(partitions, rng.randint(1, min(3, len(partitions))))
    batch_count = rng.randint(15, 45)
    return lambda client: Producer(client, chosen, acks, batch_count, is_careless=is_careless).run()


def _plain(rng: Random, acks: int) -> Work:
    partitions = rng.sample(PARTITIONS, 2)
    return lambda client: PlainProducer(client, partitions, acks, 15).run()


def _membership(instance_id: str | None) -> Work:
    return lambda client: Member(client, GROUP, SHARED, instance_id).run()


LOG = Workload(TOPICS, GROUP, SHARED, _cast, rest_s=1.0, is_read_at_rest=False)

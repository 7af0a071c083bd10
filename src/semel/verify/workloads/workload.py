"""What a run is made of: topics, a cast of clients and an ordeal, in three workloads."""

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from semel.types import TopicPartition
from semel.verify.workloads.administrators import Administrator, Deleter, Operator
from semel.verify.workloads.copiers import Copier
from semel.verify.workloads.groups import Auditor, Bookkeeper, Consumer
from semel.verify.workloads.population import RIVALLED, Cast, Work
from semel.verify.workloads.producers import (
    ACKS_ALL,
    ACKS_NONE,
    ACKS_ONE,
    PlainProducer,
    Producer,
)
from semel.verify.workloads.readers import CommittedReader, Reader
from semel.verify.workloads.slow_transactions import SlowTransactions
from semel.verify.workloads.transactional_producers import (
    Errands,
    TransactionalProducer,
    habits_of,
)


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
        return [each for topic in self.topics for each in _partitions(self.topics, topic)]


def _partitions(topics: Mapping[str, int], topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(topics[topic])]


def producing(
    rng: Random, partitions: list[TopicPartition], acks: int, *, is_careless: bool = False
) -> Work:
    chosen = rng.sample(partitions, rng.randint(1, min(3, len(partitions))))
    batch_count = rng.randint(15, 45)
    return lambda client: Producer(client, chosen, acks, batch_count, is_careless=is_careless).run()


def taking_part(group: str, shared: list[TopicPartition], instance_id: str | None) -> Work:
    return lambda client: Consumer(client, group, shared, instance_id).run()


# Everything but transactions

LOG_TOPICS = {"alpha": 3, "beta": 1}
ALPHA, BETA = (_partitions(LOG_TOPICS, topic) for topic in LOG_TOPICS)
CREW = "crew"


def _log_cast(rng: Random) -> dict[str, Work]:
    works: dict[str, Work] = {}
    partitions = ALPHA + BETA
    for number in range(rng.randint(1, 3)):
        works[f"producer-all-{number}"] = producing(rng, partitions, ACKS_ALL)
    works["producer-one"] = producing(rng, partitions, ACKS_ONE)
    works["producer-careless"] = producing(rng, partitions, ACKS_ALL, is_careless=True)
    for acks in (ACKS_ALL, ACKS_ONE, ACKS_NONE):
        works[f"producer-plain{acks}"] = _plainly_producing(rng, partitions, acks)
    for number in range(2):
        works[f"reader-{number}"] = lambda client: Reader(client, partitions).run()
    for number in range(rng.randint(1, 3)):
        works[f"member-{number}"] = taking_part(
            CREW, ALPHA, f"instance-{number}" if rng.random() < 0.4 else None
        )
    works["auditor"] = lambda client: Auditor(client, CREW, ALPHA).run()
    works["bookkeeper"] = lambda client: Bookkeeper(client, ALPHA[0]).run()
    works["administrator"] = lambda client: Administrator(client).run()
    return works


def _plainly_producing(rng: Random, partitions: list[TopicPartition], acks: int) -> Work:
    chosen = rng.sample(partitions, 2)
    return lambda client: PlainProducer(client, chosen, acks, 15).run()


LOG = Workload(LOG_TOPICS, CREW, ALPHA, _log_cast, rest_s=1.0, is_read_at_rest=False)


# Transactions

COPIED_TOPICS = {"input": 1, "output": 3}
(INPUT,), OUTPUTS = (_partitions(COPIED_TOPICS, topic) for topic in COPIED_TOPICS)
COPIERS = "copiers"


def _transactions_cast(rng: Random) -> dict[str, Work]:
    works: dict[str, Work] = {}
    works["producer-input"] = producing(rng, [INPUT], ACKS_ALL)
    if rng.random() < 0.5:
        works["producer-plain"] = producing(rng, OUTPUTS, ACKS_ALL)
    brief: list[TopicPartition] = []
    for name in ("a", "b"):
        works[RIVALLED + name] = _producing_in_transactions(rng, name, brief)
    if rng.random() < 0.3:
        works["deleter"] = lambda client: Deleter(client, brief).run()
    works[RIVALLED + "copies"] = _copying(rng)
    works["operator"] = lambda client: Operator(client, OUTPUTS).run()
    works["reader"] = lambda client: Reader(client, [INPUT, *OUTPUTS]).run()
    for number in range(2):
        works[f"reader-committed-{number}"] = lambda client: CommittedReader(
            client, [INPUT, *OUTPUTS]
        ).run()
    works["auditor"] = lambda client: Auditor(client, COPIERS, [INPUT]).run()
    return works


def _producing_in_transactions(rng: Random, name: str, brief: list[TopicPartition]) -> Work:
    habits = habits_of(rng, name)
    partitions = rng.sample(OUTPUTS, rng.randint(1, 3))
    errands = Errands(rng.randint(8, 25))
    return lambda client: TransactionalProducer(client, habits, partitions, errands, brief).run()


def _copying(rng: Random) -> Work:
    habits = habits_of(rng, "copies")
    errands = Errands(rng.randint(8, 20))
    is_member = rng.random() < 0.5
    return lambda client: Copier(
        client, habits, INPUT, OUTPUTS, errands, COPIERS, is_member=is_member
    ).run()


TRANSACTIONS = Workload(
    COPIED_TOPICS, COPIERS, [INPUT], _transactions_cast, rest_s=5.0, is_read_at_rest=True
)


# Clocks go wrong, and clients live by their timeouts

WATCHED_TOPICS = {"shared": 3, "output": 2}
SHARED, WATCHED_OUTPUTS = (_partitions(WATCHED_TOPICS, topic) for topic in WATCHED_TOPICS)
WATCH = "watch"


def _clocks_cast(rng: Random) -> dict[str, Work]:
    works: dict[str, Work] = {}
    for number in range(2):
        works[f"producer-{number}"] = producing(rng, SHARED, ACKS_ALL)
    for number in range(rng.randint(1, 3)):
        instance_id = f"instance-{number}" if rng.random() < 0.4 else None
        works[f"member-{number}"] = taking_part(WATCH, SHARED, instance_id)
    for number in range(2):
        works[f"slow-{number}"] = lambda client: SlowTransactions(client, WATCHED_OUTPUTS).run()
    return works


CLOCKS = Workload(
    WATCHED_TOPICS,
    WATCH,
    SHARED,
    _clocks_cast,
    rest_s=5.0,
    is_read_at_rest=True,
    ordeal=Ordeal(
        ("clock jumps", "dead clients", "freezes", "kills", "power losses", "stops"),
        duration_s=(1.0, 6.0),
        pause_s_mean=0.4,
    ),
)

"""What a run is made of: topics, a cast of clients and an ordeal, in four workloads."""

from collections.abc import Coroutine, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from semel.broker.config import BrokerConfig
from semel.types import TopicPartition
from semel.verify.workloads.administrators import Administrator, Deleter, Operator
from semel.verify.workloads.client import Client
from semel.verify.workloads.copiers import Copier
from semel.verify.workloads.forgetting import Ponderer, Remaker, Trimmer, contents_of
from semel.verify.workloads.groups import Auditor, Bookkeeper, Consumer
from semel.verify.workloads.population import RIVALLED, Cast, Work
from semel.verify.workloads.producers import (
    ACKS_ALL,
    ACKS_NONE,
    ACKS_ONE,
    Contents,
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
from semel.verify.world.machine import CONFIG


class Ordeal(NamedTuple):
    """What a run has to bear."""

    faults: tuple[str, ...] = ()
    """By their names; if there are none, some of those that are not about clocks."""
    duration_s: tuple[float, float] = (0.4, 2.5)
    """The least and the most."""
    pause_s_mean: float = 0.12
    """Between two faults."""
    background_delays_s: tuple[float, ...] = ()
    """One of these, anew at each start, before each step of what the disk does on the side."""


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
    settings: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """Of topics that are not to keep everything."""
    config: BrokerConfig = CONFIG

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


# Topics that forget: by age, by size, on demand, and all but the newest record of each key

FORGETTING_TOPICS = {"aged": 2, "sized": 1, "trimmed": 1, "latest": 2, "passing": 1}
FORGETTING_SETTINGS = {
    "aged": {"retention.ms": "2000"},
    "sized": {"retention.ms": "-1", "retention.bytes": "20000"},
    "trimmed": {"retention.ms": "-1"},
    "latest": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "3600000",
    },
    "passing": {
        "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": "0.2",
        "delete.retention.ms": "500",
        "retention.ms": "4000",
    },
}
FORGETFUL = replace(
    CONFIG,
    message_max_bytes=20_000,
    journal_segment_bytes=350_000,
    journal_settle_bytes=300_000,
    journal_volume_bytes=700_000,
    log_retention_check_interval_ms=1,
)
"""Small, so that much is sealed, settled and given back within seconds."""
PACE = 15.0


def _forgetting_cast(rng: Random) -> dict[str, Work]:
    works: dict[str, Work] = {}
    partitions = [
        each for topic in FORGETTING_TOPICS for each in _partitions(FORGETTING_TOPICS, topic)
    ]
    contents = contents_of(FORGETTING_SETTINGS)
    for number in range(3):
        works[f"producer-{number}"] = _slowly(_producing_much(rng, partitions, contents))
    for name in ("a", "b"):
        works[RIVALLED + name] = _slowly(_transacting_much(rng, name, partitions, contents))
    for name in ("c", "d"):
        works[RIVALLED + name] = _pondering(rng, name, partitions, contents)
    works["trimmer"] = lambda client: Trimmer(
        client, _partitions(FORGETTING_TOPICS, "trimmed")
    ).run()
    works["remaker"] = lambda client: Remaker(client).run()
    works["reader"] = _slowly(lambda client: Reader(client, partitions, begins_anywhere=True).run())
    works["reader-committed"] = _slowly(
        lambda client: CommittedReader(client, partitions, begins_anywhere=True).run()
    )
    return works


def _producing_much(rng: Random, partitions: list[TopicPartition], contents: Contents) -> Work:
    chosen = rng.sample(partitions, rng.randint(2, 4))
    batch_count = rng.randint(100, 200)
    return lambda client: Producer(client, chosen, ACKS_ALL, batch_count, contents=contents).run()


def _transacting_much(
    rng: Random, name: str, partitions: list[TopicPartition], contents: Contents
) -> Work:
    habits = habits_of(rng, name)
    chosen = rng.sample(partitions, rng.randint(2, 4))
    errands = Errands(rng.randint(25, 45))
    return lambda client: TransactionalProducer(
        client, habits, chosen, errands, contents=contents
    ).run()


def _pondering(
    rng: Random, name: str, partitions: list[TopicPartition], contents: Contents
) -> Work:
    habits = replace(habits_of(rng, name), timeout_ms=6_000)
    # Where an open transaction is in the way of most.
    chosen = [TopicPartition("sized", 0), TopicPartition("latest", 0)]
    chosen += rng.sample([each for each in partitions if each not in chosen], 1)
    errands = Errands(rng.randint(3, 5))
    return lambda client: Ponderer(client, habits, chosen, errands, contents=contents).run()


def _slowly(work: Work) -> Work:
    def slow(client: Client) -> Coroutine[Any, Any, None]:
        client.pace = PACE
        return work(client)

    return slow


FORGETTING = Workload(
    FORGETTING_TOPICS,
    "nobody",
    [],
    _forgetting_cast,
    rest_s=5.0,
    is_read_at_rest=True,
    ordeal=Ordeal(
        (
            "dead clients",
            "deaths at a removal",
            "deaths while settling",
            "full disks",
            "hangs at a deletion",
            "hangs at a fact",
            "hangs in a sync",
            "hangs while settling",
            "kills",
            "kills in a blocking call",
            "lost checkpoints",
            "lost connections",
            "power losses",
            "power losses at a checkpoint",
            "power losses in a sync",
            "rivals",
            "small clock jumps",
            "stops",
        ),
        duration_s=(10.0, 22.0),
        pause_s_mean=1.0,
        background_delays_s=(0.0, 0.005, 0.04),
    ),
    settings=FORGETTING_SETTINGS,
    config=FORGETFUL,
)

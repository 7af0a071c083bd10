"""How long a topic is waited for that is missing, or of which nobody can tell."""

import asyncio
from collections.abc import Collection
from contextlib import nullcontext, suppress
from random import Random

import pytest

import semel
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from semel.client.producing.assembly import make_intake
from semel.client.producing.engine import ProducerEngine
from semel.errors import InvalidTopic, NetworkException, UnknownTopicOrPartition
from semel.testing import Broker
from support.seeded_loop import run

TOPIC = TopicMetadata("t", b"", False, (PartitionMetadata(0, 1, 0, (1,), (1,)),))
BLOCK_TIMEOUT_MS = 60_000


class SimulatedCluster(Cluster):
    """Is away at first, and has the topic some time later."""

    def __init__(self, back_at_s: float, created_at_s: float) -> None:
        super().__init__([])
        self._back_at_s = back_at_s
        self._created_at_s = created_at_s

    async def describe(
        self, topics: Collection[str] | None = None, *, may_create: bool = False
    ) -> ClusterMetadata:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._back_at_s:
            raise NetworkException("away")
        found = {TOPIC.name: TOPIC} if now_s >= self._created_at_s else {}
        return ClusterMetadata("id", 1, {}, found, {})


def learn(cluster: Cluster) -> tuple[bool, float]:
    """Whether the topic was found, and after what time."""

    async def work() -> tuple[bool, float]:
        core, intake = make_intake({"block_timeout_ms": BLOCK_TIMEOUT_MS})
        engine = ProducerEngine(cluster, core, intake, nullcontext(), lambda: None)
        with suppress(UnknownTopicOrPartition, NetworkException):
            await engine.learn(TOPIC.name)
        return TOPIC.name in intake.queues, asyncio.get_running_loop().time()

    return run(Random(1), work())


def test_a_topic_that_stays_missing_is_refused_long_before_anything_else() -> None:
    is_found, after_s = learn(SimulatedCluster(0, created_at_s=1_000))
    assert not is_found
    assert after_s < BLOCK_TIMEOUT_MS / 1000 / 4


def test_a_topic_that_is_being_created_is_waited_for() -> None:
    assert learn(SimulatedCluster(0, created_at_s=3))[0]


def test_a_cluster_that_is_away_is_waited_for_and_then_the_topic_is() -> None:
    assert learn(SimulatedCluster(40, created_at_s=43))[0]
    is_found, after_s = learn(SimulatedCluster(1_000, created_at_s=1_000))
    assert not is_found
    assert BLOCK_TIMEOUT_MS / 1000 / 2 < after_s < 2 * BLOCK_TIMEOUT_MS / 1000


def test_topics_can_be_learned_before_records_are_sent_to_them(semel_broker: Broker) -> None:
    servers = semel_broker.bootstrap_servers

    async def work() -> None:
        async with semel.AsyncProducer(servers) as producer:
            await producer.learn_topics(["learned", "learned-too", "learned"])
            with pytest.raises(InvalidTopic):
                await producer.learn_topics(["learned", "no such name"])

    asyncio.run(work())
    with semel.Producer(servers) as producer:
        producer.learn_topics(["learned-as-well"])
    for topic in ("learned", "learned-too", "learned-as-well"):
        assert semel.read(topic, bootstrap_servers=servers).num_rows == 0

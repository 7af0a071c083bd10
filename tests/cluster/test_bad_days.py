"""Nodes that are killed, frozen, cut off and stopped on a store that loses, doubles and delays."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from semel.cluster.channel import NodeAway
from semel.cluster.messages import Move
from semel.errors import NONE
from semel.records.batch import split
from semel.records.records import Record, decode_batch, encode_batch
from semel.store.in_memory import BAD_DAY
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.cluster_calls import call
from support.raw_client import fetch_request
from support.simulated_cluster import (
    TIMING,
    NotAnswered,
    SimulatedCluster,
    SimulatedNode,
    on_nodes,
)

NODE_IDS = (1, 2, 3)
EVENTS = 6
REQUEST_S = 2.0
"""A client that hears nothing for so long asks another node."""


class Workload:
    """One idempotent producer and one group, whose offset is the number of records it has seen.

    Any node may be asked at any time, whether or not it leads.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._rng = Random(f"clients {cluster.seed}")
        self.acknowledged = 0
        self.committed = -1
        self.offset_reads = 0
        self.is_over = False

    def _any(self) -> SimulatedNode:
        return self._rng.choice([*self._cluster.nodes.values()])

    async def begin(self) -> None:
        await self._insist("create_topics", 7, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
        await self._insist("find_coordinator", 3, FindCoordinatorRequest("g", 0))
        given = await self._insist("init_producer_id", 4, InitProducerIdRequest(None, 60_000))
        assert given.error_code == NONE
        self._producer_id = given.producer_id

    async def _insist(self, module: str, version: int, request: Any) -> Any:
        while True:
            leader = await self._cluster.leader()
            with contextlib.suppress(NotAnswered):
                return await leader.ask(module, version, request)

    async def produce(self) -> None:
        """The same batch again and again until one node has acknowledged it."""
        while not self.is_over:
            number = self.acknowledged
            batch = encode_batch(
                [Record(None, b"%d" % number, 1_000)],
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=number,
            )
            data = [TopicProduceData("t", [PartitionProduceData(0, batch)])]
            request = ProduceRequest(None, -1, 30_000, data)
            try:
                reply = await self._any().ask("produce", 9, request, REQUEST_S)
            except NotAnswered:
                await asyncio.sleep(0.05)
                continue
            told = reply.responses[0].partition_responses[0]
            if told.error_code == NONE:
                assert told.base_offset == number, "a record was lost, or stored twice"
                self.acknowledged += 1
            await asyncio.sleep(0.02)

    async def commit(self) -> None:
        number = 0
        while not self.is_over:
            partitions = [OffsetCommitRequestPartition(0, number)]
            topics = [OffsetCommitRequestTopic("t", partitions)]
            request = OffsetCommitRequest("g", -1, "", topics=topics)
            try:
                reply = await self._any().ask("offset_commit", 8, request, REQUEST_S)
            except NotAnswered:
                continue
            if reply.topics[0].partitions[0].error_code == NONE:
                self.committed = number
                number += 1
            await asyncio.sleep(0.02)

    async def read_offsets(self) -> None:
        """Whoever answers must know of what was acknowledged before it was asked."""
        asking = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("t", [0])])
        while not self.is_over:
            known = self.committed
            node = self._any()
            try:
                reply = await node.ask("offset_fetch", 7, asking, 60.0)
            except NotAnswered:
                continue
            if reply.error_code == NONE:
                told = reply.topics[0].partitions[0].committed_offset
                assert told >= known, f"node {node.node_id} says {told}, {known} was acknowledged"
                self.offset_reads += 1
            await asyncio.sleep(0.02)

    async def values(self) -> list[bytes | None]:
        found: list[bytes | None] = []
        while len(found) < self.acknowledged:
            leader = await self._cluster.leader()
            try:
                reply = await leader.ask("fetch", 11, fetch_request("t", len(found)), REQUEST_S)
            except NotAnswered:
                continue
            (partition,) = reply.responses[0].partitions
            if partition.error_code == NONE:
                for _, batch in split(partition.records):
                    found += [record.value for record in decode_batch(batch)]
            await asyncio.sleep(0.02)
        return found


async def disturb(cluster: SimulatedCluster, rng: Random) -> None:
    leader = await cluster.leader()
    detection_s = TIMING.detection_s
    match rng.choice(("kill", "freeze", "cut", "stop", "away")):
        case "kill":
            leader.kill()
            await asyncio.sleep(rng.uniform(0, 3 * detection_s))
            cluster.start(leader.node_id)
        case "freeze":
            leader.freeze(rng.uniform(0.5, 5) * detection_s)
        case "cut":
            leader.store.is_cut = True
            await asyncio.sleep(rng.uniform(0.2, 3) * detection_s)
            leader.store.is_cut = False
        case "stop":
            leader.stop()
            await asyncio.sleep(2 * detection_s)
            leader.kill()
            cluster.start(leader.node_id)
        case "away":
            cluster.bucket.is_away = True
            await asyncio.sleep(rng.uniform(0.2, 3) * detection_s)
            cluster.bucket.is_away = False
    await asyncio.sleep(rng.uniform(0, 3 * detection_s))


async def move(cluster: SimulatedCluster, rng: Random) -> None:
    """The leader hands over, and something may happen to one of the two meanwhile."""
    leader = await cluster.leader()
    chosen = rng.choice([node for node in cluster.nodes.values() if node is not leader])
    detection_s = TIMING.detection_s

    async def ask() -> None:
        with contextlib.suppress(NodeAway):
            await call(cluster, leader, Move(chosen.node_id))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ask())
        await asyncio.sleep(rng.uniform(0, 0.3))
        struck = rng.choice((leader, chosen))
        match rng.choice(("nothing", "nothing", "kill", "freeze", "cut", "alone")):
            case "kill":
                struck.kill()
                await asyncio.sleep(rng.uniform(0, 2 * detection_s))
                cluster.start(struck.node_id)
            case "freeze":
                struck.freeze(rng.uniform(0.1, 3) * detection_s)
            case "cut":
                struck.store.is_cut = True
                await asyncio.sleep(rng.uniform(0.2, 2) * detection_s)
                struck.store.is_cut = False
            case "alone":
                struck.is_reachable = False
                await asyncio.sleep(rng.uniform(0.2, 2) * detection_s)
                struck.is_reachable = True
    await asyncio.sleep(rng.uniform(0, 2 * detection_s))


@on_nodes(*NODE_IDS, seeds=range(8), chances=BAD_DAY)
async def test_acknowledged_records_are_there_once_and_no_offset_goes_back(
    cluster: SimulatedCluster,
) -> None:
    await live_through(cluster, disturb)


@on_nodes(*NODE_IDS, seeds=range(8), chances=BAD_DAY)
async def test_so_it_is_where_leaders_are_moved_and_something_happens_meanwhile(
    cluster: SimulatedCluster,
) -> None:
    await live_through(cluster, move)


async def live_through(
    cluster: SimulatedCluster,
    disturb: Callable[[SimulatedCluster, Random], Coroutine[Any, Any, None]],
) -> None:
    rng = Random(f"events {cluster.seed}")
    work = Workload(cluster)
    await work.begin()
    async with asyncio.TaskGroup() as tasks:
        for client in (work.produce, work.commit, work.read_offsets, work.read_offsets):
            tasks.create_task(client())
        for _ in range(EVENTS):
            await disturb(cluster, rng)
        before = work.acknowledged
        # Whoever is left must go on by itself.
        while work.acknowledged < before + 5:  # noqa: ASYNC110 - simulated time takes none.
            await asyncio.sleep(0.1)
        work.is_over = True
    assert (await work.values())[: work.acknowledged] == [
        b"%d" % number for number in range(work.acknowledged)
    ]
    assert work.offset_reads

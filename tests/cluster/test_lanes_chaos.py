"""Several lanes while nodes are killed, frozen, stopped, cut off, and lanes are moved."""

import asyncio
from contextlib import suppress
from random import Random

from semel.cluster.channel import NodeAway
from semel.cluster.messages import Drain, Move, Rebalance
from semel.errors import NONE, DuplicateSequence
from semel.records.records import Record, encode_batch
from semel.store.in_memory import Chances
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.cluster_calls import call
from support.lanes_on_store import create, ends
from support.simulated_cluster import TIMING, NotAnswered, SimulatedCluster, SimulatedNode, on_nodes

LANES = 4
PARTITIONS = 8
DETECTION_S = TIMING.detection_s


class Writer:
    """As an idempotent producer: one record at a time, sent again until it is stored."""

    def __init__(self, cluster: SimulatedCluster, partition: int) -> None:
        self._cluster = cluster
        self._partition = partition
        self._producer_id = -1
        self.stored = 0
        self.longest_s = 0.0

    async def run(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            began_s = loop.time()
            await self._write()
            self.longest_s = max(self.longest_s, loop.time() - began_s)
            await asyncio.sleep(0.02)

    async def _write(self) -> None:
        while True:
            for node in list(self._cluster.nodes.values()):
                with suppress(NotAnswered):
                    if await self._written_by_way_of(node):
                        self.stored += 1
                        return
            await asyncio.sleep(0.05)

    async def _written_by_way_of(self, node: SimulatedNode) -> bool:
        if self._producer_id < 0:
            given = await node.ask("init_producer_id", 4, InitProducerIdRequest(None, 60_000), 2.0)
            if given.error_code != NONE:
                return False
            self._producer_id = given.producer_id
        request = MetadataRequest([MetadataRequestTopic(name="t")])
        (topic,) = (await node.ask("metadata", 12, request, 2.0)).topics
        leader_ids = {each.partition_index: each.leader_id for each in topic.partitions}
        leader = self._cluster.nodes.get(leader_ids.get(self._partition, -1))
        if leader is None:
            return False
        batch = encode_batch(
            [Record(b"k", b"%d" % self.stored, 1_000)],
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self.stored,
        )
        data = [TopicProduceData("t", [PartitionProduceData(self._partition, batch)])]
        reply = await leader.ask("produce", 10, ProduceRequest(None, -1, 30_000, data), 2.0)
        code = reply.responses[0].partition_responses[0].error_code
        assert code not in (45, 47), f"error {code} at {self.stored}"
        return code in (NONE, DuplicateSequence.code)


async def disturb(cluster: SimulatedCluster, random: Random, until_s: float) -> None:
    loop = asyncio.get_running_loop()
    while loop.time() < until_s:
        await asyncio.sleep(random.uniform(0.2, 3.0))
        live = [node for node in cluster.nodes.values() if node.process.is_alive]
        node = random.choice(live)
        match random.randrange(7):
            case 0 if len(live) > 1:
                node.kill()
            case 1 if len(live) > 1:
                node.stop()
                await node.until_over()
            case 2:
                node.freeze(random.uniform(0.2, 3.0))
            case 3:
                node.is_reachable = not node.is_reachable
            case 4 | 5:
                with suppress(NodeAway, StopIteration):
                    leader = next(each for each in live if each.leads)
                    lane = random.randrange(LANES)
                    await call(cluster, leader, Move(node.node_id, lane))
            case _:
                with suppress(NodeAway, StopIteration):
                    leader = next(each for each in live if each.leads)
                    await call(cluster, node, Drain(random.random() < 0.5))
                    await call(cluster, leader, Rebalance())
        for node_id, dead in list(cluster.nodes.items()):
            if dead.error is not None:
                raise dead.error
            if not dead.process.is_alive and random.random() < 0.7:
                cluster.start(node_id)
    for node_id, each in list(cluster.nodes.items()):
        each.is_reachable = True
        if not each.process.is_alive:
            cluster.start(node_id)


@on_nodes(1, 2, 3, lanes=LANES, seeds=range(2), chances=Chances(latency_s_mean=0.01))
async def test_each_record_is_stored_once_whatever_happens(cluster: SimulatedCluster) -> None:
    await cluster.all_led(LANES)
    await create(cluster, "t", PARTITIONS)
    until_s = asyncio.get_running_loop().time() + 25.0
    writers = [Writer(cluster, partition) for partition in range(PARTITIONS)]
    async with asyncio.TaskGroup() as tasks:
        for writer in writers:
            tasks.create_task(writer.run(until_s))
        tasks.create_task(disturb(cluster, Random(cluster.seed), until_s - 5.0))
    await cluster.all_led(LANES)
    assert ends(cluster, "t", PARTITIONS, LANES) == [writer.stored for writer in writers]
    assert min(writer.stored for writer in writers) > 50
    assert max(writer.longest_s for writer in writers) < 15 * DETECTION_S

"""Topics over several lanes on simulated nodes: made, written to by way of any node, looked at."""

import asyncio

from semel.errors import NONE
from semel.records.records import Record, encode_batch
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.simulated_cluster import NotAnswered, SimulatedCluster, SimulatedNode


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def create(cluster: SimulatedCluster, name: str, partitions: int = 8) -> None:
    leader = await cluster.leader()
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)])
    (created,) = (await leader.ask("create_topics", 7, request)).topics
    assert created.error_code == NONE, created.error_message


async def leaders(node: SimulatedNode, name: str) -> dict[int, int]:
    """The leader of each partition, as this node tells clients; -1 if there is none."""
    reply = await node.ask("metadata", 12, MetadataRequest([MetadataRequestTopic(name=name)]))
    (topic,) = reply.topics
    return {each.partition_index: each.leader_id for each in topic.partitions}


async def produced(node: SimulatedNode, name: str, partition: int, value: bytes) -> int:
    """The error."""
    batch = encode_batch([Record(b"k", value, 1_000)])
    data = [TopicProduceData(name, [PartitionProduceData(partition, batch)])]
    reply = await node.ask("produce", 10, ProduceRequest(None, -1, 30_000, data))
    code: int = reply.responses[0].partition_responses[0].error_code
    return code


async def stored(cluster: SimulatedCluster, name: str, partition: int, value: bytes) -> float:
    """As a client does: it asks any node where, and tries until it is. How long that took."""
    began_s = now_s()
    while True:
        for node in list(cluster.nodes.values()):
            if not node.process.is_alive:
                continue
            try:
                leader_id = (await leaders(node, name)).get(partition, -1)
                if leader_id in cluster.nodes:
                    leader = cluster.nodes[leader_id]
                    code = await produced(leader, name, partition, value)
                    if code == NONE:
                        return now_s() - began_s
            except (NotAnswered, ConnectionError):
                continue
        await asyncio.sleep(0.05)
        assert now_s() - began_s < 60, f"{name}-{partition} has no leader: {cluster.led()}"


def ends(cluster: SimulatedCluster, name: str, count: int, lanes: int) -> list[int]:
    """The log end of each partition, at its leader."""
    return [
        cluster.view(index % lanes).partition(name, index).log_end_offset for index in range(count)
    ]

"""What is asked of simulated nodes: by clients, and by whoever steers them."""

import asyncio
from typing import Any

from semel.cluster.channel import Channel
from semel.cluster.format import ClusterRefused
from semel.cluster.messages import AnyAnswer, AnyRequest
from semel.errors import NONE
from semel.records.records import Record, encode_batch
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.simulated_cluster import SimulatedCluster, SimulatedNode


async def call(cluster: SimulatedCluster, node: SimulatedNode, request: AnyRequest) -> AnyAnswer:
    """As the command line does."""
    channel = await Channel.open(
        node.connect, node.host, 9092, cluster.format.rpc_key, cluster.randomness, patience_s=5.0
    )
    try:
        return await channel.ask(request, patience_s=30.0)
    finally:
        channel.close()


async def ready(cluster: SimulatedCluster) -> tuple[SimulatedNode, list[SimulatedNode]]:
    """The leader, and those that stand by and know it; there is a topic."""
    leader = await cluster.leader()
    request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
    (created,) = (await leader.ask("create_topics", 7, request)).topics
    assert created.error_code == NONE
    others = [node for node in cluster.nodes.values() if node is not leader]
    view = leader.broker.lanes.by_number[0].view
    # Nothing tells when a node has looked; simulated time takes none.
    while len(view.standing_by) < len(others) or not all(  # noqa: ASYNC110
        node.broker.elsewhere.led_by is not None and "t" in node.broker.lanes.catalogue
        for node in others
    ):
        await asyncio.sleep(0.01)
    return leader, others


def batch_of(value: bytes) -> bytes:
    return encode_batch([Record(b"k", value, 1_000)])


async def produce(node: SimulatedNode, value: bytes) -> tuple[Any, Any]:
    """What is said of the partition, and the whole answer."""
    data = [TopicProduceData("t", [PartitionProduceData(0, batch_of(value))])]
    reply = await node.ask("produce", 10, ProduceRequest(None, -1, 30_000, data))
    return reply.responses[0].partition_responses[0], reply


async def error_of(node: SimulatedNode) -> str:
    """Why a node has ended."""
    # Simulated time takes none.
    while node.error is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    error: BaseException | None = node.error
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, ClusterRefused)
    return str(error)

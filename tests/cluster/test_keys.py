"""The key by which nodes know each other can be made new while they run."""

import asyncio
from itertools import pairwise

import pytest

from semel.cluster import keys
from semel.cluster.channel import Channel, NodeAway
from semel.cluster.format import ClusterFormat, ClusterRefused
from semel.cluster.messages import Describe, Described, Move
from semel.cluster.outside import Outside
from semel.store.in_memory import Bucket, MemoryStore
from semel.verify.world.loop import SeededRandomness
from support.cluster_calls import ready
from support.simulated_cluster import TIMING, SimulatedCluster, SimulatedNode, on_nodes


async def describe(cluster: SimulatedCluster, node: SimulatedNode, key: bytes) -> Described:
    channel = await Channel.open(node.connect, node.host, 9092, key, cluster.randomness, 5.0)
    try:
        told = await channel.ask(Describe(), 5.0)
        assert isinstance(told, Described)
        return told
    finally:
        channel.close()


@on_nodes(1, 2, 3, seeds=range(5))
async def test_a_new_key_counts_for_all_nodes_at_once_and_the_one_before_for_none(
    cluster: SimulatedCluster,
) -> None:
    leader, (second, _) = await ready(cluster)
    store = MemoryStore(cluster.bucket)
    before = cluster.format
    after = await keys.rotate(store, before, cluster.randomness)
    outside = await Outside.of(store, after, cluster.randomness, second.connect)
    assert await outside.deaf(TIMING.detection_s) == []
    with pytest.raises(NodeAway):
        await describe(cluster, leader, before.rpc_key)
    # Nobody has to wait to be heard of again.
    await asyncio.sleep(2 * TIMING.beat_s)
    told = await describe(cluster, leader, after.rpc_key)
    assert [node.node_id for node in told.nodes] == [1, 2, 3]
    assert all(node.slots_behind <= 1 for node in told.nodes)
    await outside.ask_leader(Move(second.node_id), 5.0)
    assert second.leads
    # Who was not there at the time reads it when it starts.
    leader.kill()
    newcomer = cluster.start(leader.node_id)
    await asyncio.sleep(3 * TIMING.detection_s)
    told = await describe(cluster, second, after.rpc_key)
    assert newcomer.node_id in [node.node_id for node in told.nodes]


@on_nodes(1, 2)
async def test_a_node_that_does_not_hear_is_named(cluster: SimulatedCluster) -> None:
    leader, (other,) = await ready(cluster)
    # What nobody waits for is stored soon.
    await asyncio.sleep(TIMING.detection_s)
    store = MemoryStore(cluster.bucket)
    after = await keys.rotate(store, cluster.format, cluster.randomness)
    outside = await Outside.of(store, after, cluster.randomness, leader.connect)
    other.kill()
    assert await outside.deaf(TIMING.detection_s) == [other.node_id]


def test_the_newest_of_several_keys_counts_and_older_ones_go() -> None:
    bucket, randomness = Bucket(), SeededRandomness(1)
    store = MemoryStore(bucket)
    first = ClusterFormat(1, b"id", b"first", 3, 3)

    async def main() -> None:
        assert await keys.with_newest(store, first) == first
        made = [first]
        for _ in range(3):
            made.append(await keys.rotate(store, made[-1], randomness))
            assert await keys.with_newest(store, first) == made[-1]
        assert all(one.rpc_key != next_.rpc_key for one, next_ in pairwise(made))
        assert list(bucket.objects) == ["cluster/key/000003"]
        bucket.objects["cluster/key/000004"] = b"nonsense"
        with pytest.raises(ClusterRefused, match="is no key of a cluster"):
            await keys.with_newest(store, first)

    asyncio.run(main())

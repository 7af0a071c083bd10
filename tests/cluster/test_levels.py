"""From one release to the next: what nodes of two versions may write, and who is refused."""

import asyncio

import pytest

from semel.cluster.format import ClusterRefused
from semel.cluster.levels import Levels
from semel.cluster.messages import AddLanes, Describe, Described, Refused, Upgrade, Upgraded
from semel.errors import NONE
from support.cluster_calls import call, error_of, produce, ready
from support.simulated_cluster import TIMING, SimulatedCluster, SimulatedNode, on_nodes

OLD = Levels(1, 1)
"""Of a version that knows of one lane."""
NEW = Levels(1, 2)
"""Of one that knows of several."""
NEWEST = Levels(2, 3)
"""Of one that has forgotten what the first has written."""


async def level(cluster: SimulatedCluster, leader: SimulatedNode) -> int:
    described = await call(cluster, leader, Describe())
    assert isinstance(described, Described)
    return described.level


async def replaced(cluster: SimulatedCluster, node: SimulatedNode, levels: Levels) -> SimulatedNode:
    """Stopped, and started anew with another version."""
    node.stop()
    await node.until_over()
    return cluster.start(node.node_id, levels)


async def all_heard(cluster: SimulatedCluster) -> SimulatedNode:
    """The leader, when it has heard of all others."""
    while True:
        leader = await cluster.leader()
        described = await call(cluster, leader, Describe())
        if isinstance(described, Described):
            others = [node for node in described.nodes if node.node_id != leader.node_id]
            heard = [node for node in others if node.heard_s is not None]
            if len(heard) == len(cluster.nodes) - 1:
                return leader
        await asyncio.sleep(0.05)


@on_nodes(1, 2, 3, seeds=range(3), levels=OLD)
async def test_all_nodes_are_replaced_in_turn_and_then_the_upgrade_is_made_final(
    cluster: SimulatedCluster,
) -> None:
    leader, _ = await ready(cluster)
    view = leader.broker.lanes.by_number[0].view
    term = view.term
    for number in (1, 2, 3):
        leader = await all_heard(cluster)
        assert (await produce(leader, b"%d" % number))[0].error_code == NONE
        refused = await call(cluster, leader, Upgrade())
        if leader.levels == OLD:
            # It knows of no other level, and is there already.
            assert refused == Upgraded(1)
            several = await call(cluster, leader, AddLanes(2))
            assert isinstance(several, Refused)
            assert "writes at level 1, which knows of one lane" in several.reason
        else:
            assert isinstance(refused, Refused)
            assert "start it anew with the leader's version first" in refused.reason
        await replaced(cluster, cluster.nodes[number], NEW)
    leader = await all_heard(cluster)
    assert await level(cluster, leader) == 1, "the old version can be gone back to"
    assert leader.broker.lanes.by_number[0].view.term == term, "nothing was aborted"
    back = await replaced(cluster, cluster.nodes[1], OLD)
    leader = await all_heard(cluster)
    assert back.error is None
    await replaced(cluster, back, NEW)
    leader = await all_heard(cluster)
    assert await call(cluster, leader, Upgrade()) == Upgraded(2)
    assert await call(cluster, leader, Upgrade()) == Upgraded(2)
    assert await level(cluster, leader) == 2
    # It is known to whoever leads behind it.
    leader.kill()
    successor = await cluster.leader()
    assert await level(cluster, successor) == 2


@on_nodes()
async def test_a_node_that_cannot_read_the_level_is_refused_with_a_sentence(
    cluster: SimulatedCluster,
) -> None:
    cluster.start(1, NEW)
    leader = await cluster.leader()
    assert await level(cluster, leader) == 2, "a new cluster begins where its first leader can"
    old = cluster.start(2, OLD)
    sentence = await error_of(old)
    assert sentence == (
        "the cluster writes at level 2, and this version of Semel reads level 1: take a newer one"
    )
    newest = cluster.start(3, NEWEST)
    await asyncio.sleep(2 * TIMING.detection_s)
    assert newest.error is None


@on_nodes(1, levels=OLD)
async def test_a_version_that_has_forgotten_the_level_is_refused_too(
    cluster: SimulatedCluster,
) -> None:
    await cluster.leader()
    newest = cluster.start(2, NEWEST)
    assert await error_of(newest) == (
        "the cluster writes at level 1, and this version of Semel reads levels 2 to 3: "
        "take an older one"
    )


@on_nodes(1, levels=OLD)
async def test_who_was_not_heard_of_does_not_outlive_the_upgrade(cluster: SimulatedCluster) -> None:
    """A node that cannot be reached by others, but reads the store, of the version before."""
    first = await cluster.leader()
    old = cluster.start(2, OLD)
    old.is_reachable = False
    await replaced(cluster, first, NEW)
    leader = cluster.nodes[1]
    while not leader.leads and not old.leads:  # noqa: ASYNC110 - simulated time takes none.
        await asyncio.sleep(0.05)
    if old.leads:
        old.freeze(5 * TIMING.detection_s)
    leader = await cluster.leader(but=old)
    assert await call(cluster, leader, Upgrade()) == Upgraded(2)
    assert "take a newer one" in await error_of(old)


@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
def test_a_version_reads_its_levels(level: int) -> None:
    levels = Levels(1, 3)
    assert levels.can_read(level) == (level in (1, 2, 3))
    if level in (0, 4):
        with pytest.raises(ClusterRefused, match=f"level {level}, and this version of Semel reads"):
            levels.check(level)

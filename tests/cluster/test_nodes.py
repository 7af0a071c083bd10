"""Nodes that know each other: whom clients are told of, who may take part, whose turn it is."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from semel.broker.config_resources import ResourceType
from semel.broker.nodes import NAMED_MS, KnownNode, KnownNodes
from semel.broker.server import UNLED_S_MAX
from semel.cluster.channel import Channel, NodeAway
from semel.cluster.messages import Beat, Move, Refused
from semel.errors import NONE, CoordinatorNotAvailable, InvalidRequest, NotLeaderOrFollower
from semel.lane.leader import NodeAddress
from semel.records.records import Record, encode_batch
from semel.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.describe_cluster import DescribeClusterRequest
from semel.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.list_config_resources import ListConfigResourcesRequest
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.cluster_calls import call, error_of, ready
from support.raw_client import decoded_reply, encoded, fetch_request, request_frame
from support.simulated_cluster import (
    TIMING,
    NotAnswered,
    SimulatedCluster,
    SimulatedNode,
    on_nodes,
)

SOON_S = TIMING.detection_s


async def told(node: SimulatedNode) -> dict[int, str]:
    """The nodes that live, as this one says. Clients hear of them, too."""
    described = await node.ask("describe_cluster", 1, DescribeClusterRequest())
    nodes = {each.broker_id: each.host for each in described.brokers}
    assert nodes.items() <= (await named(node)).items()
    return nodes


async def named(node: SimulatedNode) -> dict[int, str]:
    """The nodes that clients are told of."""
    reply = await node.ask("metadata", 12, MetadataRequest([]))
    return {each.node_id: each.host for each in reply.brokers}


async def until(condition: Callable[[], bool]) -> None:
    # Nothing tells when a node has looked; simulated time takes none.
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def all_stand_by(cluster: SimulatedCluster, leader: SimulatedNode) -> None:
    others = {node.node_id for node in cluster.nodes.values() if node.process.is_alive}
    others.discard(leader.node_id)
    lane = leader.broker.lanes.by_number[0]
    await until(lambda: {each.node_id for each in lane.view.standing_by} == others)


@on_nodes(1, 2, 3)
async def test_every_node_tells_of_all_that_live(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    await all_stand_by(cluster, leader)
    await asyncio.sleep(SOON_S)
    everyone = {number: f"node-{number}" for number in (1, 2, 3)}
    for node in cluster.nodes.values():
        assert await told(node) == everyone


@on_nodes(1, 2, 3)
async def test_who_is_gone_is_told_of_no_more_and_who_is_back_is(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    await all_stand_by(cluster, leader)
    gone, other = (node for node in cluster.nodes.values() if node is not leader)
    gone.kill()
    await asyncio.sleep(3 * TIMING.detection_s)
    for node in (leader, other):
        assert set(await told(node)) == {leader.node_id, other.node_id}
    cluster.start(gone.node_id)
    await asyncio.sleep(SOON_S)
    for node in (leader, other):
        assert set(await told(node)) == {1, 2, 3}


@on_nodes(1, 2, 3)
async def test_after_a_takeover_the_old_leader_is_told_of_no_more(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await all_stand_by(cluster, leader)
    # What nobody waits for is stored soon.
    await asyncio.sleep(SOON_S)
    leader.kill()
    successor = await cluster.leader()
    assert set(await told(successor)) == {1, 2, 3} - {leader.node_id}
    cluster.start(leader.node_id)
    await all_stand_by(cluster, successor)
    assert set(await told(successor)) == {1, 2, 3}


@on_nodes(1, 2, 3)
async def test_clients_hear_for_a_while_of_a_leader_that_has_gone(
    cluster: SimulatedCluster,
) -> None:
    """librdkafka waits for ever for a coordinator that is suddenly named no more."""
    leader = await cluster.leader()
    await all_stand_by(cluster, leader)
    await asyncio.sleep(SOON_S)
    leader.kill()
    successor = await cluster.leader()
    await asyncio.sleep(3 * TIMING.detection_s)
    (other,) = (node for node in cluster.nodes.values() if node not in (leader, successor))
    for node in (successor, other):
        assert set(await named(node)) == {1, 2, 3}
        assert await named_to(node, "librdkafka") == {1, 2, 3}
        # It asks a coordinator that is frozen for as long as that is named.
        assert await named_to(node, "kgo") == {successor.node_id, other.node_id}


async def named_to(node: SimulatedNode, software: str) -> set[int]:
    """The nodes of which this client hears."""
    hello = encoded("api_versions", 3, ApiVersionsRequest(software, "1.0"))
    question = encoded("metadata", 12, MetadataRequest([]))
    frames = [
        request_frame("api_versions", 3, hello),
        request_frame("metadata", 12, question),
    ]
    _, told_of = await node.ask_all(frames)
    reply = decoded_reply("metadata", 12, told_of)
    return {each.node_id for each in reply.brokers}


def test_a_node_is_named_at_its_newest_address_until_it_was_gone_for_long() -> None:
    known = KnownNodes()
    first = KnownNode(NodeAddress(1, "a", 1), ())
    second = KnownNode(NodeAddress(2, "b", 1), ())
    known.see([second, first], 0)
    moved = KnownNode(NodeAddress(2, "b", 2), (("CLIENTS", "c", 3),))
    known.see([moved], 1)
    assert known.named(NAMED_MS) == [first, moved]
    assert known.named(NAMED_MS + 1) == [moved]
    assert known.named(NAMED_MS + 2) == []


def test_a_node_is_found_at_the_listener_of_the_same_name() -> None:
    address = NodeAddress(2, "inside", 2)
    node = KnownNode(address, (("CLIENTS", "c", 3), ("INSIDE", "inside", 2)))
    assert node.found_at("CLIENTS") == node.found_at("clients") == NodeAddress(2, "c", 3)
    assert node.found_at("INSIDE") == address
    assert node.found_at("OTHERS") is None
    # So a version before says where it is.
    assert KnownNode(address, ()).found_at("CLIENTS") == address


@on_nodes(1, 2, 3)
async def test_settings_of_one_node_or_of_all_are_changed_through_any(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await all_stand_by(cluster, leader)
    other, third = (node for node in cluster.nodes.values() if node is not leader)

    async def altered(node: SimulatedNode, name: str, value: str) -> int:
        entry = AlterableConfig("log.retention.ms", 0, value)
        resource = AlterConfigsResource(ResourceType.BROKER.value, name, [entry])
        request = IncrementalAlterConfigsRequest([resource], False)
        (answer,) = (await node.ask("incremental_alter_configs", 1, request)).responses
        return int(answer.error_code)

    assert await altered(third, "", "77") == NONE
    # Clients ask the node whose settings they are.
    assert await altered(other, str(other.node_id), "88") == NONE
    assert await altered(leader, str(third.node_id), "99") == NONE
    expected = {leader: 77, other: 88, third: 99}
    async with asyncio.timeout(60):
        await until(
            lambda: all(node.broker.config.log_retention_ms == ms for node, ms in expected.items())
        )
    assert await altered(leader, "9", "1") == InvalidRequest.code


@on_nodes(1, 2)
async def test_quotas_count_on_every_node_and_behind_a_takeover(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    (standby,) = [node for node in cluster.nodes.values() if node is not leader]
    operation = OpData("consumer_byte_rate", 5.0)
    request = AlterClientQuotasRequest([EntryData([EntityData("client-id", None)], [operation])])
    (entry,) = (await leader.ask("alter_client_quotas", 1, request)).entries
    assert (entry.error_code, entry.error_message) == (NONE, None)
    assert leader.broker.metering.limits_clients
    await until(lambda: standby.broker.metering.limits_clients)
    leader.kill()
    assert await cluster.leader() is standby
    assert standby.broker.metering.limits_clients


@on_nodes(9, 5, 6, 13, seeds=range(10))
async def test_of_all_that_stand_by_the_first_takes_over(cluster: SimulatedCluster) -> None:
    """By their ids alone, 5, 9 and 13 would try in the same moment."""
    leader = await cluster.leader()
    await all_stand_by(cluster, leader)
    await asyncio.sleep(SOON_S)
    leader.kill()
    successor = await cluster.leader()
    others = sorted(cluster.nodes.keys() - {leader.node_id})
    assert successor.node_id == others[0]


@on_nodes(1, 2, 3)
async def test_nodes_that_cannot_reach_each_other_take_over_all_the_same(
    cluster: SimulatedCluster,
) -> None:
    for node in cluster.nodes.values():
        node.is_reachable = False
    leader = await cluster.leader()
    await asyncio.sleep(3 * TIMING.detection_s)
    assert leader.broker.lanes.by_number[0].view.standing_by == []
    leader.kill()
    successor = await cluster.leader()
    assert successor is not leader


@on_nodes(1, 2)
async def test_an_id_that_beats_from_elsewhere_is_refused(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    await all_stand_by(cluster, leader)
    (standby,) = (node for node in cluster.nodes.values() if node is not leader)
    second = cluster.start_elsewhere(standby.node_id, "elsewhere")
    assert f"node {standby.node_id} is another process already" in await error_of(second)
    third = cluster.start_elsewhere(leader.node_id, "elsewhere")
    assert f"node {leader.node_id} is another process, which leads" in await error_of(third)
    assert standby.error is None
    assert leader.leads
    assert await told(leader) == {1: "node-1", 2: "node-2"}


@on_nodes(1, 2)
async def test_a_node_that_was_killed_comes_back_on_another_machine(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await all_stand_by(cluster, leader)
    (standby,) = (node for node in cluster.nodes.values() if node is not leader)
    standby.kill()
    moved = cluster.start_elsewhere(standby.node_id, "elsewhere")
    await asyncio.sleep(3 * TIMING.detection_s)
    assert moved.error is None
    assert (await told(leader))[standby.node_id] == "elsewhere"


@on_nodes(1)
async def test_who_does_not_have_the_key_is_not_heard(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    beat = Beat(7, b"i", "evil", 1, 0)
    line = await Channel.open(
        leader.connect, leader.host, 9092, b"guessed", cluster.randomness, patience_s=1.0
    )
    with pytest.raises(NodeAway):
        await line.ask(beat, patience_s=1.0)
    assert set(await told(leader)) == {1}


async def refused(node: SimulatedNode, module: str, version: int) -> tuple[Any, Any]:
    """What is said of the only partition, and the whole answer."""
    if module == "produce":
        batch = encode_batch([Record(b"k", b"v", 1_000)])
        data = [TopicProduceData("t", [PartitionProduceData(0, batch)])]
        reply = await node.ask(module, version, ProduceRequest(None, -1, 30_000, data))
        return reply.responses[0].partition_responses[0], reply
    request = fetch_request("t", 0)
    request.topics[0].topic_id = node.broker.lanes.catalogue.named("t").topic_id
    reply = await node.ask(module, version, request)
    return reply.responses[0].partitions[0], reply


@pytest.mark.parametrize(
    ("module", "version"), [("produce", 10), ("produce", 9), ("fetch", 16), ("fetch", 12)]
)
def test_who_asks_the_wrong_node_is_told_the_right_one(module: str, version: int) -> None:
    @on_nodes(1, 2)
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.leader()
        request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
        (created,) = (await leader.ask("create_topics", 7, request)).topics
        assert created.error_code == NONE
        (standby,) = (node for node in cluster.nodes.values() if node is not leader)
        await until(lambda: "t" in standby.broker.lanes.catalogue)
        partition, reply = await refused(standby, module, version)
        assert partition.error_code == NotLeaderOrFollower.code
        if version in (10, 16):
            epoch = leader.broker.lanes.by_number[0].view.epoch
            current = partition.current_leader
            assert (current.leader_id, current.leader_epoch) == (leader.node_id, epoch)
            (endpoint,) = reply.node_endpoints
            assert (endpoint.node_id, endpoint.host) == (leader.node_id, leader.host)
        else:
            assert partition.current_leader is None
            assert reply.node_endpoints == []

    scenario()


@on_nodes(1, 2)
async def test_who_knows_of_no_topics_does_not_say_that_there_are_none(
    cluster: SimulatedCluster,
) -> None:
    await cluster.leader()
    cluster.bucket.is_away = True
    newcomer = cluster.start(3)
    await until(lambda: newcomer._is_up)
    for module, version, request in (
        ("metadata", 12, MetadataRequest(None)),
        ("describe_topic_partitions", 0, DescribeTopicPartitionsRequest([])),
    ):
        with pytest.raises(NotAnswered):
            await newcomer.ask(module, version, request)
    for module, version, listing in (
        ("list_groups", 5, ListGroupsRequest()),
        ("list_transactions", 1, ListTransactionsRequest()),
        ("list_config_resources", 1, ListConfigResourcesRequest([ResourceType.TOPIC.value])),
    ):
        reply = await newcomer.ask(module, version, listing)
        assert reply.error_code == CoordinatorNotAvailable.code, module
    assert set(await named(newcomer)) == {3}
    dirs = await newcomer.ask("describe_log_dirs", 4, DescribeLogDirsRequest(None))
    assert [result.topics for result in dirs.results] == [[]]


async def coordinator_of(node: SimulatedNode, name: str) -> tuple[int, int]:
    """The node that is named, and the error."""
    reply = await node.ask("find_coordinator", 3, FindCoordinatorRequest(name, 1))
    return reply.node_id, reply.error_code


@on_nodes(1, 2, 3, seeds=range(5))
async def test_who_is_cut_off_from_the_store_sends_clients_to_who_leads_meanwhile(
    cluster: SimulatedCluster,
) -> None:
    """A client may ask nobody else, as long as it is answered."""
    leader, (other, _) = await ready(cluster)
    await asyncio.sleep(SOON_S)
    leader.store.is_cut = other.store.is_cut = True
    successor = await cluster.leader(but=leader)
    await asyncio.sleep(3 * SOON_S)
    for node in (leader, other):
        metadata = await node.ask("metadata", 12, MetadataRequest([]))
        assert metadata.controller_id == successor.node_id
        assert await coordinator_of(node, "id") == (successor.node_id, NONE)
    # Who leads is gone in its turn, and nobody is there to tell of another.
    successor.kill()
    await asyncio.sleep(3 * SOON_S)
    assert await coordinator_of(leader, "id") == (-1, CoordinatorNotAvailable.code)
    # What it reads itself counts again as soon as it does.
    other.store.is_cut = False
    await cluster.leader(but=leader)
    leader.store.is_cut = False
    await asyncio.sleep(3 * SOON_S)
    assert await coordinator_of(leader, "id") == (other.node_id, NONE)


@on_nodes(1, 2)
async def test_who_cannot_read_the_store_is_not_handed_over_to(cluster: SimulatedCluster) -> None:
    leader, (other,) = await ready(cluster)
    other.store.is_cut = True
    await asyncio.sleep(2 * SOON_S)
    refused = await call(cluster, leader, Move(other.node_id))
    assert isinstance(refused, Refused)
    assert "cannot read the store" in refused.reason
    assert leader.leads


@on_nodes(1, 2)
async def test_what_was_sent_one_behind_the_other_waits_for_a_leader_together(
    cluster: SimulatedCluster,
) -> None:
    await cluster.leader()
    cluster.bucket.is_away = True
    newcomer = cluster.start(3)
    await until(lambda: newcomer._is_up)
    count = 5
    began_s = asyncio.get_running_loop().time()
    request = FindCoordinatorRequest("id", 1)
    frames = [request_frame("find_coordinator", 3, encoded("find_coordinator", 3, request))] * count
    replies = await newcomer.ask_all(frames)
    assert len(replies) == count
    waited_s = asyncio.get_running_loop().time() - began_s
    assert waited_s == pytest.approx(UNLED_S_MAX, abs=0.1)


@on_nodes(1, 2)
async def test_what_waits_for_a_leader_is_counted_at_once(cluster: SimulatedCluster) -> None:
    await cluster.leader()
    cluster.bucket.is_away = True
    newcomer = cluster.start(3)
    await until(lambda: newcomer._is_up)
    server = newcomer.broker.server
    assert server is not None
    held_max = newcomer.broker.config.queued_max_request_bytes // 2
    server._undecided_bytes = held_max - 1
    request = FindCoordinatorRequest("id", 1)
    # There is no room for it at the door: it is answered at once.
    began_s = asyncio.get_running_loop().time()
    assert (await newcomer.ask("find_coordinator", 3, request)).error_code
    assert asyncio.get_running_loop().time() - began_s < UNLED_S_MAX / 2
    # And of two that come in one moment the second finds the room taken.
    size = len(request_frame("find_coordinator", 3, encoded("find_coordinator", 3, request))) - 4
    server._undecided_bytes = held_max - size
    loop = asyncio.get_running_loop()
    waited_s = []

    async def ask() -> None:
        await newcomer.ask("find_coordinator", 3, request)
        waited_s.append(loop.time() - began_s)

    began_s = loop.time()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ask())
        tasks.create_task(ask())
    assert waited_s[0] < UNLED_S_MAX / 2 < waited_s[1]


@pytest.mark.parametrize("version", [9, 11, 13])
def test_a_transactional_write_that_is_led_elsewhere_is_refused_for_the_partition(
    version: int,
) -> None:
    """Told of another coordinator, Java's producer sends it to the same node for ever."""

    @on_nodes(1, 2)
    async def scenario(cluster: SimulatedCluster) -> None:
        leader, (other,) = await ready(cluster)
        (created,) = (
            await other.ask("metadata", 12, MetadataRequest([MetadataRequestTopic(name="t")]))
        ).topics
        batch = encode_batch(
            [Record(b"k", b"v", 1_000)],
            producer_id=1,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        data = [TopicProduceData("t", [PartitionProduceData(0, batch)], created.topic_id)]
        request = ProduceRequest("id", -1, 30_000, data)
        # Both who stands by, and who has just handed over.
        for node in (other, leader):
            reply = await node.ask("produce", version, request)
            ((refused,),) = [topic.partition_responses for topic in reply.responses]
            assert refused.error_code == NotLeaderOrFollower.code
            if version >= 10:
                named = refused.current_leader
                assert named.leader_id != node.node_id
            if node is other:
                await call(cluster, leader, Move(other.node_id))

    scenario()

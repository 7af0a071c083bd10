"""One lane on a store, several nodes: who leads, who takes over, and what clients hear."""

import asyncio
from typing import Any

import pytest

from semel.broker.answer import Answer, Call
from semel.broker.dispatch import route
from semel.errors import (
    NONE,
    LeaderNotAvailable,
    NotController,
    NotCoordinator,
    NotLeaderOrFollower,
    ProtocolError,
)
from semel.journal.slots.settings import SlotSettings
from semel.records.batch import split
from semel.records.records import Record, decode_batch, encode_batch
from semel.store.in_memory import Chances
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.handled import Peer
from support.raw_client import BY_MODULE, fetch_request
from support.simulated_cluster import (
    TIMING,
    NotAnswered,
    SimulatedCluster,
    SimulatedNode,
    on_nodes,
)

TAKEOVER_S = TIMING.detection_s + 2
LATEST = -1


async def create(node: SimulatedNode, topic: str = "t") -> None:
    request = CreateTopicsRequest([CreatableTopic(topic, 1, 1)])
    (created,) = (await node.ask("create_topics", 7, request)).topics
    assert created.error_code == NONE


async def metadata(node: SimulatedNode, topic: str = "t") -> Any:
    request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
    return await node.ask("metadata", 12, request)


async def produce(node: SimulatedNode, value: bytes, timeout_s: float = 30.0) -> int:
    """The error code."""
    batch = encode_batch([Record(b"k", value, 1_000)])
    data = [TopicProduceData("t", [PartitionProduceData(0, batch)])]
    request = ProduceRequest(None, -1, 30_000, data)
    reply = await node.ask("produce", 9, request, timeout_s)
    return int(reply.responses[0].partition_responses[0].error_code)


def sequenced(sequence: int) -> ProduceRequest:
    """One record of an idempotent producer."""
    records = [Record(b"k", b"%d" % sequence, 1_000)]
    batch = encode_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
    data = [TopicProduceData("t", [PartitionProduceData(0, batch)])]
    return ProduceRequest(None, -1, 30_000, data)


async def latest(node: SimulatedNode, timeout_s: float = 30.0) -> tuple[int, int]:
    """The error code, and the end of the log."""
    wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=LATEST)])
    reply = await node.ask("list_offsets", 7, ListOffsetsRequest(topics=[wanted]), timeout_s)
    (partition,) = reply.topics[0].partitions
    return partition.error_code, partition.offset


async def values(node: SimulatedNode) -> list[bytes | None]:
    reply = await node.ask("fetch", 11, fetch_request("t", 0))
    (partition,) = reply.responses[0].partitions
    assert partition.error_code == NONE
    return [record.value for _, batch in split(partition.records) for record in decode_batch(batch)]


async def standby_that_knows(cluster: SimulatedCluster, leader: SimulatedNode) -> SimulatedNode:
    (standby, *_) = [node for node in cluster.nodes.values() if node is not leader]
    # Nothing tells when a node has looked; simulated time takes none.
    while standby.broker.elsewhere.led_by is None or "t" not in standby.broker.lanes.catalogue:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return standby


def now_s() -> float:
    return asyncio.get_running_loop().time()


@on_nodes(1, 2, 3)
async def test_one_leads_and_all_say_who(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    await create(leader)
    standby = await standby_that_knows(cluster, leader)
    assert [node.leads for node in cluster.nodes.values()].count(True) == 1
    for node in (leader, standby):
        told = await metadata(node)
        assert told.controller_id == leader.node_id
        (partition,) = told.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (NONE, leader.node_id)
        assert partition.leader_epoch == leader.broker.lanes.by_number[0].view.epoch
        assert {(each.node_id, each.host) for each in told.brokers} >= {
            (leader.node_id, leader.host)
        }
        found = await node.ask("find_coordinator", 3, FindCoordinatorRequest("g", 0))
        assert (found.error_code, found.node_id, found.host) == (NONE, leader.node_id, leader.host)


@on_nodes(1, 2)
async def test_who_stands_by_refuses_so_that_clients_go_elsewhere(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await create(leader)
    standby = await standby_that_knows(cluster, leader)
    assert await produce(standby, b"a") == NotLeaderOrFollower.code
    assert (await latest(standby))[0] == NotLeaderOrFollower.code
    beat = await standby.ask("heartbeat", 3, HeartbeatRequest("g", 1, "m"))
    assert beat.error_code == NotCoordinator.code
    request = CreateTopicsRequest([CreatableTopic("u", 1, 1)])
    (refused,) = (await standby.ask("create_topics", 7, request)).topics
    assert refused.error_code == NotController.code
    named = InitProducerIdRequest("id", 60_000)
    given = await standby.ask("init_producer_id", 4, named)
    assert given.error_code == NotCoordinator.code


@pytest.mark.parametrize("version", [1, 2, 7, 8])
def test_who_stands_by_does_not_say_that_a_group_has_committed_nothing(version: int) -> None:
    @on_nodes(1, 2)
    async def scenario(cluster: SimulatedCluster) -> None:
        leader = await cluster.leader()
        await create(leader)
        standby = await standby_that_knows(cluster, leader)
        request = OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequestTopic("t", [0])],
            groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", [0])])],
        )
        reply = await standby.ask("offset_fetch", version, request)
        told = [reply.error_code, *(group.error_code for group in reply.groups)]
        told += [each.error_code for topic in reply.topics for each in topic.partitions]
        assert NotCoordinator.code in told

    scenario()


@on_nodes(1, 2)
async def test_who_stands_by_and_has_not_heard_of_a_topic_sends_clients_elsewhere(
    cluster: SimulatedCluster,
) -> None:
    """Producers take it for lost data that a topic is not there."""
    leader = await cluster.leader()
    (standby,) = [node for node in cluster.nodes.values() if node is not leader]
    standby.store.is_cut = True
    await create(leader)
    assert await produce(standby, b"a") == NotLeaderOrFollower.code
    assert (await latest(standby))[0] == NotLeaderOrFollower.code
    (fetched,) = (await standby.ask("fetch", 11, fetch_request("t", 0))).responses
    assert fetched.partitions[0].error_code == NotLeaderOrFollower.code
    assert (await produce(leader, b"a")) == NONE


@on_nodes(1, 2, 3)
async def test_when_the_leader_is_killed_another_takes_over_with_all_that_was_acknowledged(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await create(leader)
    sent = [b"%d" % number for number in range(20)]
    for value in sent:
        assert await produce(leader, value) == NONE
    epoch = leader.broker.lanes.by_number[0].view.epoch
    leader.kill()
    killed_s = now_s()
    successor = await cluster.leader()
    assert await produce(successor, b"more") == NONE
    assert now_s() - killed_s <= TAKEOVER_S
    assert await values(successor) == [*sent, b"more"]
    view = successor.broker.lanes.by_number[0].view
    assert view.epoch > epoch
    assert view.term == view.epoch, "what was not durable may have been acknowledged"


@on_nodes(1, 2)
async def test_a_killed_leader_comes_back_and_stands_by(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    await create(leader)
    leader.kill()
    successor = await cluster.leader()
    back = cluster.start(leader.node_id)
    await asyncio.sleep(5 * TIMING.detection_s)
    assert not back.leads
    assert successor.leads
    assert (await metadata(back)).controller_id == successor.node_id


@on_nodes(4, 1, 5, seeds=range(20))
async def test_a_leader_that_stops_hands_over_at_once_and_the_term_stays(
    cluster: SimulatedCluster,
) -> None:
    """Two who stand by have the same rank, and try in the same moment."""
    leader = await cluster.leader()
    await create(leader)
    assert await produce(leader, b"a") == NONE
    view = leader.broker.lanes.by_number[0].view
    epoch, term = view.epoch, view.term
    await asyncio.sleep(1)
    leader.stop()
    stopped_s = now_s()
    successor = await cluster.leader(but=leader)
    assert now_s() - stopped_s <= 1
    await asyncio.sleep(5 * TIMING.detection_s)
    assert successor.leads, "it is left to lead"
    view = successor.broker.lanes.by_number[0].view
    assert (view.epoch, view.term) == (epoch + 1, term)
    assert await values(successor) == [b"a"]


@on_nodes(1, 2, 3, seeds=range(20))
async def test_a_leader_that_was_frozen_tells_nothing_that_is_no_longer_true(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await create(leader)
    assert await produce(leader, b"a") == NONE
    leader.freeze(10 * TIMING.detection_s)
    successor = await cluster.leader(but=leader)
    assert await produce(successor, b"b") == NONE
    # These arrive while it sleeps. If it has heard that it leads no more, it says so.
    told: Any = await asyncio.gather(
        latest(leader), produce(leader, b"lost"), metadata(leader), return_exceptions=True
    )
    end, stored, who = told
    assert isinstance(end, NotAnswered) or end == (NotLeaderOrFollower.code, -1)
    assert isinstance(stored, NotAnswered) or stored == NotLeaderOrFollower.code
    assert isinstance(who, NotAnswered) or who.controller_id != leader.node_id
    await asyncio.sleep(TIMING.detection_s)
    assert not leader.leads
    assert await values(successor) == [b"a", b"b"]
    assert (await latest(leader))[0] == NotLeaderOrFollower.code
    assert (await metadata(leader)).controller_id == successor.node_id


@on_nodes(1, 2)
async def test_a_leader_cut_off_from_the_store_answers_nobody_and_steps_down(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await create(leader)
    assert await produce(leader, b"a") == NONE
    leader.store.is_cut = True
    cut_s = now_s()
    with pytest.raises(NotAnswered):
        await latest(leader)
    assert not leader.leads
    successor = await cluster.leader(but=leader)
    assert now_s() - cut_s <= TAKEOVER_S
    assert await produce(successor, b"b") == NONE
    leader.store.is_cut = False
    await asyncio.sleep(5 * TIMING.detection_s)
    assert successor.leads
    assert await values(successor) == [b"a", b"b"]
    assert (await metadata(leader)).controller_id == successor.node_id


@on_nodes(1, 2, 3)
async def test_while_the_store_is_away_nobody_takes_over_and_all_resumes(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await create(leader)
    assert await produce(leader, b"a") == NONE
    cluster.bucket.is_away = True
    await asyncio.sleep(20 * TIMING.detection_s)
    assert not any(node.leads for node in cluster.nodes.values()), "none can know that it leads"
    (partition,) = (await metadata(leader)).topics
    assert partition.error_code == LeaderNotAvailable.code
    cluster.bucket.is_away = False
    back_s = now_s()
    successor = await cluster.leader()
    assert now_s() - back_s >= TIMING.detection_s, "only silence that was seen counts"
    assert await produce(successor, b"b") == NONE
    assert await values(successor) == [b"a", b"b"]


@on_nodes(1, 2, 3)
async def test_a_leader_with_nothing_to_say_is_left_to_lead(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    # The others are heard of meanwhile, which is said once for each.
    await asyncio.sleep(TIMING.detection_s)
    slots = len(cluster.bucket.objects)
    await asyncio.sleep(60 * TIMING.detection_s)
    assert leader.leads
    assert len(cluster.bucket.objects) - slots <= 60 * 3 + 1


@on_nodes(1, 2)
async def test_who_reads_while_others_write_is_answered_soon(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    await create(leader)
    is_over = False

    async def write() -> None:
        while not is_over:
            assert await produce(leader, b"a") == NONE

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(write())
        for _ in range(20):
            error_code, _ = await latest(leader, timeout_s=1.0)
            assert error_code == NONE
        is_over = True


@on_nodes(1)
async def test_producers_are_not_refused_while_the_store_takes_its_time(
    cluster: SimulatedCluster,
) -> None:
    """Together they bring more than may wait for the store: the later wait to be let in."""
    leader = await cluster.leader()
    await create(leader)
    leader.store.chances = Chances(latency_s_mean=0.1)
    unconfirmed_bytes = SlotSettings().unconfirmed_bytes
    value = bytes(200_000)
    count = 3 * unconfirmed_bytes // (2 * len(value))
    codes = await asyncio.gather(*(produce(leader, value) for _ in range(count)))
    assert codes == [NONE] * count
    assert (await latest(leader)) == (NONE, count)


@on_nodes(1)
async def test_producers_are_let_in_whenever_there_is_room_for_them(
    cluster: SimulatedCluster,
) -> None:
    """What is under way is what the store can take: it is not waited for until little of it is
    left."""
    leader = await cluster.leader()
    await create(leader)
    leader.store.chances = Chances(latency_s_mean=0.1)
    backlog_bytes = SlotSettings().limits.backlog_bytes
    assert backlog_bytes is not None
    value = bytes(200_000)
    count = 3 * backlog_bytes // len(value)
    (journal,) = leader.broker.leading.journals_on_store.values()
    ends_at = journal.bytes_appended + count * len(value)
    least = backlog_bytes
    sending = asyncio.gather(*(produce(leader, value) for _ in range(count)))
    while journal.end - journal.durable <= backlog_bytes:  # noqa: ASYNC110 - nothing tells of it.
        await asyncio.sleep(0.001)
    while journal.bytes_appended < ends_at:
        least = min(least, journal.end - journal.durable)
        await asyncio.sleep(0.001)
    assert least == backlog_bytes, "less than that was under way while others waited to be let in"
    assert await sending == [NONE] * count


@on_nodes(1)
async def test_who_waits_to_be_let_in_hears_when_the_lane_is_lost(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await create(leader)
    leader.store.is_cut = True
    value = bytes(200_000)
    count = SlotSettings().unconfirmed_bytes // len(value)
    told = await asyncio.gather(
        *(produce(leader, value) for _ in range(count)), return_exceptions=True
    )
    # What was appended may yet count; the others are told where to go.
    assert {type(each) for each in told} == {NotAnswered, int}
    assert {each for each in told if isinstance(each, int)} == {NotLeaderOrFollower.code}


@on_nodes(1, 2)
async def test_who_stands_by_names_no_leader_that_was_not_heard_of(
    cluster: SimulatedCluster,
) -> None:
    leader = await cluster.leader()
    await create(leader)
    standby = await standby_that_knows(cluster, leader)
    leader.kill()
    killed_s = now_s()
    told: list[int] = []
    while not standby.leads:
        reply = await metadata(standby)
        told.append(reply.topics[0].partitions[0].error_code)
        if now_s() - killed_s > TIMING.detection_s:
            assert reply.controller_id in {-1, standby.node_id}
        await asyncio.sleep(0.01)
    assert reply.controller_id == standby.node_id, "who asks meanwhile waits for the next"
    assert told[0] == NONE


@on_nodes(1, 2)
async def test_what_was_sent_behind_a_refused_batch_does_not_come_before_it(
    cluster: SimulatedCluster,
) -> None:
    """Several are in flight: the first finds that another leads, the second that this node does."""
    leader = await cluster.leader()
    await create(leader)
    standby = await standby_that_knows(cluster, leader)
    known = route(BY_MODULE["produce"].key)
    call = Call(known.api, 9, 1, None, Peer())
    refused = known.handler(standby.broker, sequenced(0), call)
    assert isinstance(refused, Answer)
    (topic,) = refused.response.responses
    assert topic.partition_responses[0].error_code == NotLeaderOrFollower.code
    leader.kill()
    successor = await cluster.leader()
    assert successor is standby
    with pytest.raises(ProtocolError):
        known.handler(standby.broker, sequenced(1), call)
    for sequence in (0, 1):
        reply = await successor.ask("produce", 9, sequenced(sequence))
        assert reply.responses[0].partition_responses[0].error_code == NONE
    assert await values(successor) == [b"0", b"1"]

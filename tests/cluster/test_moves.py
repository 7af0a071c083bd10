"""A leader that is asked to go: another leads at once, nothing is aborted, nobody is cut off."""

import asyncio

from semel.cluster.channel import Channel
from semel.cluster.messages import (
    Describe,
    Described,
    Drain,
    Leads,
    Move,
    Ready,
    Refused,
)
from semel.errors import NONE, NotCoordinator, NotLeaderOrFollower
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.metadata import MetadataRequest
from support.cluster_calls import call, produce, ready
from support.raw_client import fetch_request
from support.simulated_cluster import (
    TIMING,
    SimulatedCluster,
    on_nodes,
)

LATEST = -1


def now_s() -> float:
    return asyncio.get_running_loop().time()


@on_nodes(1, 2, 3, seeds=range(10))
async def test_a_move_lets_the_named_node_lead_and_the_term_stays(
    cluster: SimulatedCluster,
) -> None:
    leader, others = await ready(cluster)
    view = leader.broker.lanes.by_number[0].view
    epoch, term = view.epoch, view.term
    chosen = others[-1]
    began_s = now_s()
    answer = await call(cluster, leader, Move(chosen.node_id))
    assert answer == Leads(epoch + 1, chosen.node_id)
    assert now_s() - began_s < 0.5
    assert chosen.leads
    assert not leader.leads
    view = chosen.broker.lanes.by_number[0].view
    assert (view.epoch, view.term) == (epoch + 1, term)
    # Who has led is told of as one that stands by, and may lead again.
    await asyncio.sleep(2 * TIMING.detection_s)
    assert {node.node_id for node in view.standing_by} == {1, 2, 3} - {chosen.node_id}
    assert await call(cluster, chosen, Move(leader.node_id)) == Leads(epoch + 2, leader.node_id)


@on_nodes(1, 2, 3, seeds=range(10))
async def test_under_load_everybody_hears_success_or_where_to_go(cluster: SimulatedCluster) -> None:
    leader, others = await ready(cluster)
    stored: list[bytes] = []
    redirected = 0

    async def write(name: int) -> None:
        nonlocal redirected
        node = leader
        for number in range(60):
            value = b"%d-%d" % (name, number)
            while True:
                partition, reply = await produce(node, value)
                if partition.error_code == NONE:
                    stored.append(value)
                    break
                assert partition.error_code == NotLeaderOrFollower.code
                assert partition.current_leader is not None, "it was told where to go"
                (endpoint,) = reply.node_endpoints
                assert endpoint.node_id == partition.current_leader.leader_id
                node = cluster.nodes[endpoint.node_id]
                redirected += 1

    async with asyncio.TaskGroup() as tasks:
        for name in range(4):
            tasks.create_task(write(name))
        await asyncio.sleep(0.2)
        moved = await call(cluster, leader, Move(others[0].node_id))
        assert isinstance(moved, Leads)
    assert redirected == 4, "each once, by the refusal of the node that has led"
    assert len(stored) == 4 * 60
    assert others[0].broker.lanes.by_number[0].view.partition("t", 0).log_end_offset == 4 * 60


@on_nodes(1, 2, seeds=range(5))
async def test_who_waits_is_told_that_another_leads_and_is_not_cut_off(
    cluster: SimulatedCluster,
) -> None:
    leader, (other,) = await ready(cluster)
    await leader.ask("find_coordinator", 3, FindCoordinatorRequest("g", 0))

    member = JoinGroupRequest(
        "g", 30_000, 30_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    assert (await leader.ask("join_group", 3, member)).error_code == NONE
    # The second waits until the first has heard of it.
    joining = asyncio.create_task(leader.ask("join_group", 3, member))
    fetching = asyncio.create_task(
        leader.ask("fetch", 11, fetch_request("t", 0, max_wait_ms=9_000))
    )
    wanted = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=LATEST)])
    await asyncio.sleep(0.05)
    moving = asyncio.create_task(call(cluster, leader, Move(other.node_id)))
    listing = asyncio.create_task(
        leader.ask("list_offsets", 7, ListOffsetsRequest(topics=[wanted]))
    )
    assert (await joining).error_code == NotCoordinator.code
    fetched = (await fetching).responses[0].partitions[0]
    assert fetched.error_code == NotLeaderOrFollower.code
    listed = (await listing).topics[0].partitions[0]
    assert listed.error_code in (NONE, NotLeaderOrFollower.code)
    assert isinstance(await moving, Leads)
    found = await leader.ask("find_coordinator", 3, FindCoordinatorRequest("g", 0))
    assert (found.error_code, found.node_id) == (NONE, other.node_id)
    told = await leader.ask("metadata", 12, MetadataRequest(None))
    (partition,) = next(each for each in told.topics if each.name == "t").partitions
    assert (partition.error_code, partition.leader_id) == (NONE, other.node_id)


@on_nodes(1, 2, seeds=range(5))
async def test_an_open_transaction_goes_on_over_a_move(cluster: SimulatedCluster) -> None:
    leader, (other,) = await ready(cluster)
    await leader.ask("find_coordinator", 3, FindCoordinatorRequest("id", 1))
    given = await leader.ask("init_producer_id", 4, InitProducerIdRequest("id", 60_000))
    assert given.error_code == NONE
    producer = given.producer_id, given.producer_epoch
    topics = [AddPartitionsToTxnTopic("t", [0])]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics,
    )
    added = await leader.ask("add_partitions_to_txn", 3, request)
    (result,) = added.results_by_topic_v3_and_below[0].results_by_partition
    assert result.partition_error_code == NONE
    assert isinstance(await call(cluster, leader, Move(other.node_id)), Leads)
    ended = await other.ask("end_txn", 3, EndTxnRequest("id", *producer, True))
    assert ended.error_code == NONE


@on_nodes(1, 2, 3, seeds=range(10))
async def test_a_node_that_stops_names_its_successor_and_tells_clients(
    cluster: SimulatedCluster,
) -> None:
    leader, others = await ready(cluster)
    view = leader.broker.lanes.by_number[0].view
    epoch, term = view.epoch, view.term
    fetching = asyncio.create_task(
        leader.ask("fetch", 11, fetch_request("t", 0, max_wait_ms=9_000))
    )
    await asyncio.sleep(0.05)
    leader.stop()
    partition, reply = await produce(leader, b"a")
    if partition.error_code != NONE:
        assert partition.error_code == NotLeaderOrFollower.code
        assert reply.node_endpoints[0].node_id == others[0].node_id
    fetched = (await fetching).responses[0].partitions[0]
    assert fetched.error_code in (NONE, NotLeaderOrFollower.code)
    successor = await cluster.leader(but=leader)
    assert successor is others[0], "the first of those that stand by"
    view = successor.broker.lanes.by_number[0].view
    assert (view.epoch, view.term) == (epoch + 1, term)


@on_nodes(1, 2, 3)
async def test_a_standby_that_stops_is_told_of_no_more(cluster: SimulatedCluster) -> None:
    leader, (gone, _) = await ready(cluster)
    gone.stop()
    await asyncio.sleep(TIMING.detection_s / 4)
    standing_by = leader.broker.lanes.by_number[0].view.standing_by
    assert gone.node_id not in {node.node_id for node in standing_by}


@on_nodes(1, 2, 3)
async def test_a_successor_that_dies_is_replaced_after_the_detection_time(
    cluster: SimulatedCluster,
) -> None:
    leader, (chosen, other) = await ready(cluster)
    term = leader.broker.lanes.by_number[0].view.term
    # It is asked, and dies before it can hear that it should take over.
    chosen.store.is_cut = True
    moved = await call(cluster, leader, Move(chosen.node_id))
    assert isinstance(moved, Refused)
    assert "does not say that it leads" in moved.reason
    chosen.kill()
    successor = await cluster.leader()
    assert successor in (leader, other)
    view = successor.broker.lanes.by_number[0].view
    assert view.term == term, "it was sealed: nothing is aborted"


@on_nodes(1, 2, 3)
async def test_a_drained_node_hands_over_and_is_not_handed_over_to(
    cluster: SimulatedCluster,
) -> None:
    leader, (second, third) = await ready(cluster)
    assert isinstance(await call(cluster, second, Drain()), Ready)
    await asyncio.sleep(TIMING.detection_s)
    drained = await call(cluster, leader, Drain())
    assert isinstance(drained, Leads)
    assert drained.node_id == third.node_id
    refused = await call(cluster, third, Move(second.node_id))
    assert isinstance(refused, Refused)
    assert "is not to lead" in refused.reason
    # Who is not drained any more can lead again.
    assert isinstance(await call(cluster, second, Drain(False)), Ready)
    assert isinstance(await call(cluster, third, Move(second.node_id)), Leads)


@on_nodes(1, 2)
async def test_a_drained_node_leads_if_nobody_else_does(cluster: SimulatedCluster) -> None:
    leader, (other,) = await ready(cluster)
    await call(cluster, other, Drain())
    leader.kill()
    killed_s = now_s()
    assert await cluster.leader() is other
    assert now_s() - killed_s > 2 * TIMING.detection_s - TIMING.beat_s


@on_nodes(1, 2)
async def test_who_cannot_be_moved_to_is_refused_with_a_sentence(cluster: SimulatedCluster) -> None:
    leader, (other,) = await ready(cluster)
    answer = await call(cluster, leader, Move(7))
    assert answer == Refused(f"node 7 does not stand by; of the others: {other.node_id}")
    assert isinstance(await call(cluster, leader, Move(leader.node_id)), Leads)
    answer = await call(cluster, other, Move(leader.node_id))
    assert isinstance(answer, Refused)
    assert "does not lead" in answer.reason
    assert leader.leads


@on_nodes(1)
async def test_the_last_node_cannot_be_drained(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    assert await call(cluster, leader, Drain()) == Refused("no other node stands by")
    assert leader.leads


@on_nodes(1, 2, seeds=range(5))
async def test_whoever_asked_for_a_move_may_go_away(cluster: SimulatedCluster) -> None:
    leader, (other,) = await ready(cluster)
    channel = await Channel.open(
        other.connect, leader.host, 9092, cluster.format.rpc_key, cluster.randomness, 5.0
    )
    asking = asyncio.create_task(channel.ask(Move(other.node_id), 30.0))
    await asyncio.sleep(0.02)
    asking.cancel()
    channel.close()
    assert await cluster.leader(but=leader) is other


@on_nodes(1, 2, 3, seeds=range(5))
async def test_a_move_during_a_move_to_another_node_is_not_said_to_be_done(
    cluster: SimulatedCluster,
) -> None:
    leader, (second, third) = await ready(cluster)
    wanted = (second.node_id, third.node_id)
    answers = await asyncio.gather(*(call(cluster, leader, Move(each)) for each in wanted))
    # Which of them came first is drawn.
    (led,) = [answer for answer in answers if isinstance(answer, Leads)]
    (refused,) = [answer for answer in answers if isinstance(answer, Refused)]
    assert led.node_id == wanted[answers.index(led)]
    assert not refused.is_final, "whoever asks goes to the next leader"
    assert refused.reason == f"node {leader.node_id} has handed over to node {led.node_id}"


@on_nodes(1, 2, 3)
async def test_the_leader_describes_the_cluster(cluster: SimulatedCluster) -> None:
    leader, (second, third) = await ready(cluster)
    await call(cluster, third, Drain())
    await asyncio.sleep(3 * TIMING.detection_s)
    described = await call(cluster, leader, Describe())
    assert isinstance(described, Described)
    view = leader.broker.lanes.by_number[0].view
    assert (described.node_id, described.epoch, described.term) == (1, view.epoch, view.term)
    assert described.led_s >= 3 * TIMING.detection_s
    assert [node.node_id for node in described.nodes] == [1, 2, 3]
    told = {node.node_id: node for node in described.nodes}
    assert [told[number].is_drained for number in (1, 2, 3)] == [False, False, True]
    assert told[leader.node_id].heard_s is None
    for node in (second, third):
        heard_s = told[node.node_id].heard_s
        assert heard_s is not None
        assert heard_s <= TIMING.beat_s + 0.1
        assert told[node.node_id].slots_behind <= 1
    # Who does not read is behind.
    second.store.is_cut = True
    await asyncio.sleep(5 * TIMING.detection_s)
    described = await call(cluster, leader, Describe())
    assert isinstance(described, Described)
    behind = {node.node_id: node.slots_behind for node in described.nodes}
    assert behind[second.node_id] > 10
    refused = await call(cluster, third, Describe())
    assert isinstance(refused, Refused)
    assert not refused.is_final


@on_nodes(1, 2)
async def test_a_node_that_has_read_nothing_yet_is_not_handed_over_to(
    cluster: SimulatedCluster,
) -> None:
    leader, (other,) = await ready(cluster)
    other.kill()
    back = cluster.start(other.node_id)
    back.store.is_cut = True
    await asyncio.sleep(TIMING.detection_s / 2)
    moved = await call(cluster, leader, Move(other.node_id))
    assert moved == Refused(f"node {other.node_id}: node {other.node_id} has not begun to read")
    assert leader.leads

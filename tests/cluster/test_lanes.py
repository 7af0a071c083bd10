"""Several lanes on a store: where they are led, and what becomes of them when nodes come and go."""

import asyncio
from collections import Counter

import pytest

from semel.cluster.messages import (
    AddLanes,
    Balanced,
    Describe,
    Described,
    Drain,
    LaneCount,
    Leads,
    Move,
    Ready,
    Rebalance,
    Refused,
)
from semel.errors import NONE, ConcurrentTransactions, NotLeaderOrFollower, StoreBehind
from semel.lane.lane import Lane
from semel.records.records import Record, encode_batch
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.cluster_calls import call
from support.lanes_on_store import create, ends, leaders, now_s, produced, stored
from support.simulated_cluster import (
    TIMING,
    NotAnswered,
    SimulatedCluster,
    SimulatedNode,
    on_nodes,
)

DETECTION_S = TIMING.detection_s


@on_nodes(1, 2, 3, lanes=4, seeds=range(2))
async def test_lanes_are_spread_and_every_node_tells_who_leads(cluster: SimulatedCluster) -> None:
    led = await cluster.all_led(4)
    assert sorted(Counter(led.values()).values()) == [1, 1, 2]
    await create(cluster, "t")
    for node in cluster.nodes.values():
        assert await leaders(node, "t") == {index: led[index % 4] for index in range(8)}
        for index in range(8):
            error = await produced(node, "t", index, b"v")
            here = led[index % 4] == node.node_id
            assert error == (NONE if here else NotLeaderOrFollower.code)
    assert ends(cluster, "t", 8, 4) == [1] * 8
    for key in ("a", "b", "c", "d", "e"):
        found = {
            (await node.ask("find_coordinator", 3, FindCoordinatorRequest(key, 0))).node_id
            for node in cluster.nodes.values()
        }
        assert len(found) == 1, "all nodes name the same coordinator"


@on_nodes(1, 2, 3, lanes=4, seeds=range(3))
async def test_lanes_of_a_killed_node_are_led_by_others_soon(cluster: SimulatedCluster) -> None:
    led = await cluster.all_led(4)
    await create(cluster, "t")
    for index in range(8):
        await stored(cluster, "t", index, b"before")
    controller = await cluster.leader()
    victim = next(node for node in cluster.nodes.values() if node is not controller)
    terms = {number: cluster.view(number).term for number in led}
    victim.kill()
    took = [await stored(cluster, "t", index, b"after") for index in range(8)]
    assert max(took) < DETECTION_S + 2.0
    after = await cluster.all_led(4)
    for number, node_id in led.items():
        if node_id != victim.node_id:
            assert after[number] == node_id, "what need not move stays"
            view = cluster.view(number)
            assert view.term == terms[number]
    assert ends(cluster, "t", 8, 4) == [2] * 8


@on_nodes(1, 2, 3, lanes=4, seeds=range(3))
async def test_lanes_go_on_when_the_leader_of_lane_0_is_killed(cluster: SimulatedCluster) -> None:
    led = await cluster.all_led(4)
    await create(cluster, "t")
    for index in range(8):
        await stored(cluster, "t", index, b"before")
    controller = await cluster.leader()
    controller.kill()
    for index in range(8):
        if led[index % 4] != controller.node_id:
            assert await stored(cluster, "t", index, b"meanwhile") < 0.5
    took = [await stored(cluster, "t", index, b"after") for index in range(8)]
    assert max(took) < DETECTION_S + 2.0
    after = await cluster.all_led(4)
    kept = {number for number, node_id in led.items() if node_id != controller.node_id}
    assert {number: after[number] for number in kept} == {number: led[number] for number in kept}


@on_nodes(1, 2, 3, lanes=4, seeds=range(2))
async def test_names_that_are_deleted_together_are_free_when_that_is_answered(
    cluster: SimulatedCluster,
) -> None:
    await cluster.all_led(4)
    names = ("a", "b", "c")
    for name in names:
        await create(cluster, name)
    leader = await cluster.leader()
    deleting = DeleteTopicsRequest([DeleteTopicState(name) for name in names])
    answer = await leader.ask("delete_topics", 6, deleting)
    assert [each.error_code for each in answer.responses] == [NONE] * 3
    creating = CreateTopicsRequest([CreatableTopic(name, 8, 1) for name in names])
    answer = await leader.ask("create_topics", 7, creating)
    assert [each.error_code for each in answer.topics] == [NONE] * 3


@on_nodes(1, 2, lanes=2)
async def test_who_has_no_room_to_bring_its_lanes_in_line_tries_again(
    cluster: SimulatedCluster,
) -> None:
    await cluster.all_led(2)
    controller = await cluster.leader()
    (other,) = (node for node in cluster.nodes.values() if node is not controller)
    align = other.broker.topics.align
    refused: list[Lane] = []

    def behind_at_first(lane: Lane) -> None:
        if lane.number == 0 and not refused:
            refused.append(lane)
            raise StoreBehind("lane 1 cannot drop what was deleted")
        align(lane)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(other.broker.topics, "align", behind_at_first)
        controller.kill()
        assert await cluster.leader(but=controller) is other
    assert len(refused) == 1
    await create(cluster, "t")
    assert await produced(other, "t", 0, b"v") == NONE


@on_nodes(1, 2, 3, lanes=4, seeds=range(3))
async def test_a_move_by_hand_loses_and_aborts_nothing(cluster: SimulatedCluster) -> None:
    led = await cluster.all_led(4)
    await create(cluster, "t")
    for index in range(8):
        await stored(cluster, "t", index, b"before")
    lane = 2
    source = cluster.leader_of(lane)
    target = next(node for node in cluster.nodes.values() if node is not source)
    view = source.broker.lanes.by_number[lane].view
    epoch, term = view.epoch, view.term
    began_s = now_s()
    controller = await cluster.leader()
    answer = await call(cluster, controller, Move(target.node_id, lane))
    assert answer == Leads(epoch + 1, target.node_id)
    assert now_s() - began_s < 1.0
    view = target.broker.lanes.by_number[lane].view
    assert (view.epoch, view.term) == (epoch + 1, term)
    after = await cluster.all_led(4)
    assert after == {**led, lane: target.node_id}
    for index in range(8):
        assert await stored(cluster, "t", index, b"after") < 0.5
    assert ends(cluster, "t", 8, 4) == [2] * 8
    assert isinstance(await call(cluster, controller, Move(target.node_id, 4)), Refused)
    assert isinstance(await call(cluster, controller, Move(9, 1)), Refused)


@on_nodes(1, 2, 3, lanes=4, seeds=range(3))
async def test_a_node_that_stops_hands_over_all_it_leads(cluster: SimulatedCluster) -> None:
    await cluster.all_led(4)
    await create(cluster, "t")
    for index in range(8):
        await stored(cluster, "t", index, b"before")
    for node_id in (1, 2):
        terms = {number: cluster.view(number).term for number in range(4)}
        began_s = now_s()
        node = cluster.nodes[node_id]
        node.stop()
        await node.until_over()
        assert now_s() - began_s < DETECTION_S
        led = await cluster.all_led(4)
        assert node_id not in led.values()
        for number in range(4):
            view = cluster.view(number)
            assert view.term == terms[number], "nothing was aborted"
    for index in range(8):
        assert await stored(cluster, "t", index, b"after") < 0.5
    assert ends(cluster, "t", 8, 4) == [2] * 8


@on_nodes(1, 2, 3, lanes=4, seeds=range(3))
async def test_a_drained_node_leads_nothing_and_may_again(cluster: SimulatedCluster) -> None:
    await cluster.all_led(4)
    controller = await cluster.leader()
    answer = await call(cluster, controller, Drain())
    assert isinstance(answer, Leads)
    led = await cluster.all_led(4)
    assert controller.node_id not in led.values()
    assert isinstance(await call(cluster, controller, Drain(False)), Ready)
    # It levels by itself, in its time.
    await cluster.until(lambda: controller.node_id in cluster.led().values())
    led = await cluster.all_led(4)
    assert sorted(Counter(led.values()).values()) == [1, 1, 2]


@on_nodes(1, 2, 3, lanes=6, seeds=range(2))
async def test_lanes_are_levelled_when_asked_and_pins_released(cluster: SimulatedCluster) -> None:
    await cluster.all_led(6)
    controller = await cluster.leader()
    target = next(node for node in cluster.nodes.values() if node is not controller)
    for lane in range(1, 6):
        assert isinstance(await call(cluster, controller, Move(target.node_id, lane)), Leads)
    await asyncio.sleep(20 * DETECTION_S)
    assert Counter(cluster.led().values())[target.node_id] == 5, "placed by hand, they stay"
    answer = await call(cluster, controller, Rebalance())
    assert isinstance(answer, Balanced)
    assert answer.moved == 3
    led = await cluster.all_led(6)
    assert sorted(Counter(led.values()).values()) == [2, 2, 2]


@on_nodes(1, 2, 3, seeds=range(2))
async def test_lanes_are_added_while_topics_stay_where_they_are(cluster: SimulatedCluster) -> None:
    leader = await cluster.leader()
    await create(cluster, "old", 4)
    for index in range(4):
        await stored(cluster, "old", index, b"before")
    assert await call(cluster, leader, AddLanes(4)) == LaneCount(4)
    led = await cluster.all_led(4)
    assert len(set(led.values())) == 3
    await create(cluster, "new", 4)
    for index in range(4):
        assert await stored(cluster, "old", index, b"after") < 0.5
        assert await stored(cluster, "new", index, b"after") < 0.5
    lane_0 = leader.broker.lanes.by_number[0].view
    assert [lane_0.partition("old", index).log_end_offset for index in range(4)] == [2] * 4
    assert ends(cluster, "new", 4, 4) == [1] * 4
    assert isinstance(await call(cluster, leader, AddLanes(3)), Refused)


@on_nodes(1, 2, 3, lanes=4, seeds=range(3))
async def test_a_name_made_anew_never_leads_to_what_was_deleted(cluster: SimulatedCluster) -> None:
    """Also where the lane was moved, and its node was killed, meanwhile."""
    await cluster.all_led(4)
    for round_ in range(3):
        await create(cluster, "t", 4)
        for index in range(4):
            await stored(cluster, "t", index, b"%d" % round_)
        assert ends(cluster, "t", 4, 4) == [1] * 4
        controller = await cluster.leader()
        if round_ == 1:
            victim = next(node for node in cluster.nodes.values() if node is not controller)
            victim.kill()
        request = DeleteTopicsRequest([DeleteTopicState("t")])
        (deleted,) = (await controller.ask("delete_topics", 6, request)).responses
        assert deleted.error_code == NONE
        if round_ == 1:
            await cluster.all_led(4)


@on_nodes(1, 2, 3, lanes=4, seeds=range(3))
async def test_a_frozen_leader_of_a_lane_is_replaced_and_steps_down(
    cluster: SimulatedCluster,
) -> None:
    await cluster.all_led(4)
    await create(cluster, "t", 4)
    controller = await cluster.leader()
    frozen = next(node for node in cluster.nodes.values() if node is not controller)
    lanes = [number for number, node_id in cluster.led().items() if node_id == frozen.node_id]
    frozen.freeze(4 * DETECTION_S)
    await cluster.until(lambda: all(cluster.led()[lane] != frozen.node_id for lane in lanes))
    for lane in lanes:
        assert await stored(cluster, "t", lane, b"v") < 3 * DETECTION_S
    terms = [cluster.view(lane).term for lane in lanes]
    await asyncio.sleep(6 * DETECTION_S)
    for lane in lanes:
        assert lane not in frozen.broker.lanes.by_number or cluster.led()[lane] == frozen.node_id
    assert [cluster.view(lane).term for lane in lanes] == terms, "it has fenced nobody"
    assert frozen.error is None


@on_nodes(1, 2, 3, lanes=4, seeds=range(3))
async def test_the_status_tells_of_every_lane(cluster: SimulatedCluster) -> None:
    led = await cluster.all_led(4)
    await asyncio.sleep(DETECTION_S)
    described = await call(cluster, await cluster.leader(), Describe())
    assert isinstance(described, Described)
    assert {each.lane: each.node_id for each in described.lanes} == led
    for each in described.lanes:
        view = cluster.view(each.lane)
        assert (each.epoch, each.term) == (view.epoch, view.term)
        assert each.placed == (None if each.lane == 0 else led[each.lane])


@on_nodes(7, lanes=3, seeds=range(3))
async def test_one_node_leads_all_lanes_and_starts_again(cluster: SimulatedCluster) -> None:
    assert await cluster.all_led(3) == dict.fromkeys(range(3), 7)
    await create(cluster, "t", 3)
    for index in range(3):
        await stored(cluster, "t", index, b"before")
    node = cluster.nodes[7]
    node.stop()
    await node.until_over()
    cluster.start(7)
    assert await cluster.all_led(3) == dict.fromkeys(range(3), 7)
    for index in range(3):
        await stored(cluster, "t", index, b"after")
        view = cluster.nodes[7].broker.lanes.by_number[index].view
        assert (view.epoch, view.term) == (1, 0), "it was sealed"
    assert ends(cluster, "t", 3, 3) == [2] * 3


@on_nodes(1, 2, 3, lanes=2)
async def test_a_late_write_does_not_hit_a_later_transaction_of_its_epoch(
    cluster: SimulatedCluster,
) -> None:
    """Rule 28: who has just taken a lane has not seen which connections its clients have replaced,
    so that none that was accepted before may write under TV1."""
    await cluster.all_led(2)
    await create(cluster, "t", 2)
    coordinator, holder = cluster.leader_of(0), cluster.leader_of(1)
    (other,) = (node for node in cluster.nodes.values() if node not in (coordinator, holder))
    led = await leaders(holder, "t")
    partition = next(index for index, node_id in led.items() if node_id == holder.node_id)
    names = (f"tx{number}" for number in range(100))
    lane_of = coordinator.broker.coordinators.lane_of_transactional_id
    name = next(each for each in names if lane_of(each) == 0)
    producer = await tv1_producer(coordinator, name)
    old = other.open()
    await add(coordinator, name, producer, partition)
    ending = EndTxnRequest(name, *producer, False)
    assert (await coordinator.ask("end_txn", 3, ending)).error_code == NONE
    assert isinstance(await call(cluster, coordinator, Move(other.node_id, 1)), Leads)
    await add(coordinator, name, producer, partition)
    with pytest.raises(NotAnswered):
        await old.ask("produce", 9, write(name, producer, partition, b"aborted"))
    reply = await other.ask("produce", 9, write(name, producer, partition, b"second"))
    assert reply.responses[0].partition_responses[0].error_code == NONE
    ending = EndTxnRequest(name, *producer, True)
    assert (await coordinator.ask("end_txn", 3, ending)).error_code == NONE


Producer = tuple[int, int]


async def tv1_producer(coordinator: SimulatedNode, name: str) -> Producer:
    while True:
        given = await coordinator.ask("init_producer_id", 3, InitProducerIdRequest(name, 60_000))
        if given.error_code == NONE:
            return given.producer_id, given.producer_epoch
        await asyncio.sleep(0.1)


async def add(coordinator: SimulatedNode, name: str, producer: Producer, partition: int) -> None:
    """As soon as the abort before has been heard everywhere."""
    topics = [AddPartitionsToTxnTopic("t", [partition])]
    request = AddPartitionsToTxnRequest(name, *producer, topics)
    while True:
        reply = await coordinator.ask("add_partitions_to_txn", 3, request)
        (added,) = reply.results_by_topic_v3_and_below[0].results_by_partition
        if added.partition_error_code == NONE:
            return
        assert added.partition_error_code == ConcurrentTransactions.code
        await asyncio.sleep(0.1)


def write(name: str, producer: Producer, partition: int, value: bytes) -> ProduceRequest:
    batch = encode_batch(
        [Record(None, value, 1_000)],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        is_transactional=True,
    )
    data = [TopicProduceData("t", [PartitionProduceData(partition, batch)])]
    return ProduceRequest(name, -1, 30_000, data)

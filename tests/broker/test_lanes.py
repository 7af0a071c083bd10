"""Several lanes in one broker: partitions in each, replies that wait for all, and stepping down."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import pytest

from semel.broker.answer import Answer, Call, waiting
from semel.broker.broker import Broker, Storage
from semel.broker.dispatch import route
from semel.broker.retention import Retention
from semel.errors import (
    NONE,
    CoordinatorNotAvailable,
    CorruptJournal,
    InvalidConfig,
    JournalFull,
    LeaderNotAvailable,
    NotController,
    NotCoordinator,
    NotLeaderOrFollower,
    ProtocolError,
    TopicAlreadyExists,
)
from semel.journal.file.memory import MemoryDevice
from semel.records.records import Record, decode_batch, encode_batch
from semel.types import OFFSETS_TOPIC
from semel.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from semel.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from semel.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.describe_cluster import DescribeClusterRequest
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.leave_group import LeaveGroupRequest
from semel.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from semel.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.compiled import plain_python
from support.handled import CONFIG, LoopClock, Peer, SeededRandomness, call, started
from support.raw_client import BY_MODULE, fetch_request, produce_request
from support.seeded_loop import elapse, run

LANE_COUNT = 2
BATCH = encode_batch([Record(b"k", b"v", 1_000)])


class TwoLanes:
    """A broker that leads two lanes, each on a disk of its own."""

    def __init__(self) -> None:
        self._rng = Random(1)
        self.devices = [MemoryDevice(Random(number)) for number in range(LANE_COUNT)]

    def opened(self) -> Broker:
        storage = Storage("memory", lambda: (2**41, 2**40))
        randomness = SeededRandomness(self._rng)
        return Broker(CONFIG, self.devices, storage, LoopClock(), randomness)

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Broker]:
        """Killed at the end of the block."""
        async with started(self.opened()) as broker:
            yield broker
        for device in self.devices:
            device.kill()

    def lose_power(self) -> None:
        for device in self.devices:
            device.power_loss()


def on_two_lanes(scenario: Callable[[TwoLanes], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        run(Random(1), scenario(TwoLanes()))

    return test


def over_both(topic: str = "t") -> ProduceRequest:
    data = [PartitionProduceData(index, BATCH) for index in range(LANE_COUNT)]
    return ProduceRequest(None, -1, 30_000, [TopicProduceData(topic, data)])


def ask(broker: Broker, module: str, version: int, request: Any) -> Any:
    """What the handler gives, whether or not it may leave already."""
    known = route(BY_MODULE[module].key)
    return known.handler(broker, request, Call(known.api, version, 1, None, Peer()))


async def create(broker: Broker, topic: str = "t") -> None:
    request = CreateTopicsRequest([CreatableTopic(topic, LANE_COUNT, 1)])
    (created,) = (await call(broker, "create_topics", 7, request)).topics
    assert created.error_code == NONE


async def find_coordinators(broker: Broker) -> None:
    """As all clients do before they ask one."""
    for key_type in range(2):
        request = FindCoordinatorRequest("any", key_type)
        assert (await call(broker, "find_coordinator", 3, request)).error_code == NONE


def group_in(broker: Broker, lane_number: int) -> str:
    names = (f"g{number}" for number in range(100))
    return next(name for name in names if broker.coordinators.of_group(name).number == lane_number)


async def joined(broker: Broker, group_id: str, session_timeout_ms: int = 10_000) -> Any:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest(
        group_id, session_timeout_ms, 60_000, "", None, "consumer", protocols
    )
    return await call(broker, "join_group", 3, request)


async def produced(broker: Broker, request: ProduceRequest) -> list[tuple[int, int]]:
    """Error code and offset of each partition."""
    answer = await call(broker, "produce", 9, request)
    return [(each.error_code, each.base_offset) for each in answer.responses[0].partition_responses]


async def fetched(broker: Broker) -> list[tuple[int, int]]:
    """Error code and number of records of each partition, in one answer."""
    partitions = [
        FetchPartition(index, fetch_offset=0, partition_max_bytes=2**20)
        for index in range(LANE_COUNT)
    ]
    topics = [FetchTopic("t", partitions=partitions)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=2**20, topics=topics)
    answer = await call(broker, "fetch", 11, request)
    return [
        (each.error_code, sum(len(decode_batch(batch)) for batch in each.records or ()))
        for each in answer.responses[0].partitions
    ]


@on_two_lanes
async def test_one_produce_over_two_lanes_is_answered_when_both_are_durable(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        first, second = broker.lanes.led
        answer = ask(broker, "produce", 9, over_both())
        assert isinstance(answer, Answer)
        durable: list[int] = []
        for lane in (first, second):
            lane.when_all_durable(partial(durable.append, lane.number))
        assert durable == []
        assert answer.durable
        marked = broker.lanes.marks() if answer.marks is None else answer.marks
        assert [mark.lane for mark in marked] == [first, second]
        await elapse(1)
        assert sorted(durable) == [0, 1]
        assert await produced(broker, over_both()) == [(NONE, 1), (NONE, 1)]
        assert await fetched(broker) == [(NONE, 2), (NONE, 2)]
        assert [lane.view.partition_count for lane in broker.lanes.led] == [1, 1]


@on_two_lanes
async def test_each_lane_replays_its_own_partitions(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await create(broker, "gone")
        assert await produced(broker, over_both()) == [(NONE, 0), (NONE, 0)]
        deleting = DeleteTopicsRequest([DeleteTopicState("gone")])
        (deleted,) = (await call(broker, "delete_topics", 6, deleting)).responses
        assert deleted.error_code == NONE
    for is_power_lost in (False, True):
        if is_power_lost:
            machine.lose_power()
        async with machine.broker() as broker:
            assert await fetched(broker) == [(NONE, 1), (NONE, 1)]
            assert [topic.name for topic in broker.lanes.catalogue] == ["t"]
            for lane in broker.lanes.led:
                assert not lane.view.hosts("gone")


@plain_python
@on_two_lanes
async def test_a_topic_that_a_crash_left_in_one_lane_is_hosted_by_the_next_broker(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        hosted = broker.topics.host
        broker.topics.host = lambda topic: None  # type: ignore[method-assign]
        await create(broker)
        broker.topics.host = hosted  # type: ignore[method-assign]
        assert not broker.lanes.by_number[1].view.hosts("t")
    async with machine.broker() as broker:
        assert broker.lanes.by_number[1].view.hosts("t")
        assert await produced(broker, over_both()) == [(NONE, 0), (NONE, 0)]


# Stepping down


@on_two_lanes
async def test_a_lane_that_steps_down_is_refused_and_the_other_serves_on(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await produced(broker, over_both())
        await broker.leading.step_down(1)
        assert await produced(broker, over_both()) == [(NONE, 1), (NotLeaderOrFollower.code, -1)]
        assert await fetched(broker) == [(NONE, 2), (NotLeaderOrFollower.code, 0)]
        request = MetadataRequest([MetadataRequestTopic(name="t")])
        (topic,) = (await call(broker, "metadata", 9, request)).topics
        assert [each.error_code for each in topic.partitions] == [NONE, LeaderNotAvailable.code]

        await broker.leading.take_lane(1, machine.devices[1])
        assert await produced(broker, over_both()) == [(NONE, 2), (NONE, 1)]


@on_two_lanes
async def test_who_waits_for_records_of_a_lane_hears_that_it_is_led_elsewhere(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        request = fetch_request("t", 0, max_wait_ms=60_000)
        request.topics[0].partitions[0].partition = 1
        waiting = asyncio.ensure_future(call(broker, "fetch", 11, request))
        await elapse(1)
        assert not waiting.done()
        await broker.leading.step_down(1)
        (partition,) = (await waiting).responses[0].partitions
        assert partition.error_code == NotLeaderOrFollower.code


@on_two_lanes
async def test_members_that_wait_hear_that_their_group_is_led_elsewhere(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await find_coordinators(broker)
        lane = broker.coordinators.of_group("g")
        protocols = [JoinGroupRequestProtocol("range", b"")]
        joining = JoinGroupRequest("g", 10_000, 60_000, "", None, "consumer", protocols)
        assert (await call(broker, "join_group", 3, joining)).error_code == NONE
        waiting = asyncio.ensure_future(call(broker, "join_group", 3, joining))
        await elapse(0.1)
        assert not waiting.done()
        await broker.leading.step_down(lane.number)
        assert (await waiting).error_code == NotCoordinator.code
        beat = HeartbeatRequest("g", 1, "any")
        assert (await call(broker, "heartbeat", 3, beat)).error_code == NotCoordinator.code


@on_two_lanes
async def test_without_the_catalogue_no_topic_is_made(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await broker.leading.step_down(0)
        request = CreateTopicsRequest([CreatableTopic("u", 1, 1)])
        (created,) = (await call(broker, "create_topics", 7, request)).topics
        assert created.error_code == NotController.code
        deleting = DeleteTopicsRequest([DeleteTopicState("t")])
        (deleted,) = (await call(broker, "delete_topics", 6, deleting)).responses
        assert deleted.error_code == NotController.code
        growing = CreatePartitionsRequest([CreatePartitionsTopic("t", 4)])
        (grown,) = (await call(broker, "create_partitions", 3, growing)).results
        assert grown.error_code == NotController.code
        altering = AlterConfigsRequest([AlterConfigsResource(2, "t", [])])
        (altered,) = (await call(broker, "alter_configs", 2, altering)).responses
        assert altered.error_code == NotController.code
        await broker.leading.take_lane(0, machine.devices[0])
        await create(broker, "u")


@on_two_lanes
async def test_without_the_catalogue_there_is_no_controller(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        node_id = broker.config.node_id
        assert await controllers(broker) == [node_id, node_id]
        await broker.leading.step_down(1)
        assert await controllers(broker) == [node_id, node_id]
        await broker.leading.take_lane(1, machine.devices[1])
        await broker.leading.step_down(0)
        assert await controllers(broker) == [-1, -1]
        await broker.leading.take_lane(0, machine.devices[0])
        assert await controllers(broker) == [node_id, node_id]


@on_two_lanes
async def test_without_the_catalogue_rounds_of_retention_keep_what_they_do_not_know(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await produced(broker, over_both())
        await broker.leading.step_down(0)
        await Retention(broker).round()
        (partition,) = broker.lanes.led[0].view.partitions()
        assert (partition.log_start_offset, partition.log_end_offset) == (0, 1)


@on_two_lanes
async def test_what_is_deleted_beside_a_round_ends_with_its_lane_and_is_no_fault(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        config = [CreatableTopicConfig("retention.ms", "1")]
        request = CreateTopicsRequest([CreatableTopic("t", LANE_COUNT, 1, configs=config)])
        (created,) = (await call(broker, "create_topics", 7, request)).topics
        assert created.error_code == NONE
        await produced(broker, over_both())
        lane = broker.lanes.by_number[1]
        retention, begun = Retention(broker), asyncio.Event()
        first_kept = lane.log.first_kept
        unreadable: list[Exception] = []

        async def left(*arguments: Any) -> int:
            begun.set()
            # What a lane that was left waits for may never come.
            await asyncio.sleep(3600)
            return await first_kept(*arguments)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(lane.log, "first_kept", left)
            patched.setattr(
                broker, "found_unreadable", lambda where, error: unreadable.append(error)
            )
            deleting = asyncio.create_task(retention.delete_expired())
            await begun.wait()
            await broker.leading.step_down(1)
            await elapse(1)
            assert deleting.done()
            await deleting
        assert not unreadable
        assert not retention._is_deleting
        assert broker.lanes.controller.view.partition("t", 0).log_start_offset == 1


@on_two_lanes
async def test_replicas_by_hand_are_no_mistake_while_a_leader_is_looked_for(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker, "grown")
        await broker.leading.step_down(1)
        by_hand = [CreatableReplicaAssignment(index, [1]) for index in range(LANE_COUNT)]
        request = CreateTopicsRequest([CreatableTopic("t", -1, -1, by_hand)])
        (created,) = (await call(broker, "create_topics", 7, request)).topics
        assert created.error_code == LeaderNotAvailable.code
        assert created.error_message == "who leads lane 1 is not known at the moment"
        assignments = [CreatePartitionsAssignment([1]) for _ in range(LANE_COUNT)]
        growing = CreatePartitionsRequest([CreatePartitionsTopic("grown", 4, assignments)])
        (grown,) = (await call(broker, "create_partitions", 3, growing)).results
        assert grown.error_code == LeaderNotAvailable.code
        assert grown.error_message == "who leads lane 1 is not known at the moment"


async def controllers(broker: Broker) -> list[int]:
    """As Metadata and DescribeCluster name them."""
    metadata = await call(broker, "metadata", 9, MetadataRequest([]))
    described = await call(broker, "describe_cluster", 0, DescribeClusterRequest())
    return [metadata.controller_id, described.controller_id]


@on_two_lanes
async def test_without_the_catalogue_nothing_is_said_of_any_topic(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await find_coordinators(broker)
        ask(broker, "create_topics", 7, CreateTopicsRequest([CreatableTopic("u", LANE_COUNT, 1)]))
        await broker.leading.step_down(0)
        refused = NotLeaderOrFollower.code
        for topic in ("t", "u"):
            request = MetadataRequest([MetadataRequestTopic(name=topic)])
            (described,) = (await call(broker, "metadata", 9, request)).topics
            assert described.error_code == LeaderNotAvailable.code
            assert await produced(broker, over_both(topic)) == [(refused, -1), (refused, -1)]
        with pytest.raises(ProtocolError):
            await call(broker, "metadata", 9, MetadataRequest(None))
        assert await fetched(broker) == [(refused, 0), (refused, 0)]
        (folder,) = (await call(broker, "describe_log_dirs", 4, DescribeLogDirsRequest())).results
        assert folder.topics == []

        # Groups of the other lane go on, but for what has to be looked up.
        group_id = group_in(broker, 1)
        assert (await joined(broker, group_id)).error_code == NONE
        assert await committed(broker, group_id) == CoordinatorNotAvailable.code
        await broker.leading.take_lane(0, machine.devices[0])
        assert "u" not in broker.lanes.catalogue
        assert await committed(broker, group_id) != CoordinatorNotAvailable.code


@on_two_lanes
async def test_partitions_of_a_lane_that_has_left_are_not_in_the_folder(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await broker.leading.step_down(1)
        (folder,) = (await call(broker, "describe_log_dirs", 4, DescribeLogDirsRequest())).results
        assert [each.partition_index for each in folder.topics[0].partitions] == [0]


# Coordinators


@on_two_lanes
async def test_who_only_asks_makes_no_internal_topic(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        for number in range(10):
            request = DescribeGroupsRequest([f"g{number}"])
            await call(broker, "describe_groups", 4, request)
        assert len(broker.lanes.catalogue) == 0


@on_two_lanes
async def test_a_lane_coordinates_nothing_before_it_knows_its_part_of_the_internal_topic(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await find_coordinators(broker)
        groups = [group_in(broker, number) for number in range(LANE_COUNT)]
    machine = TwoLanes()
    async with machine.broker() as broker:
        await create(broker)
        assert (await joined(broker, groups[1])).error_code == CoordinatorNotAvailable.code
        # The first use in lane 0 makes the topic, and the other lane is told when it is needed.
        assert await committed(broker, groups[0]) == NONE
        assert (await joined(broker, groups[1])).error_code == NONE
        assert [lane.view.hosts(OFFSETS_TOPIC) for lane in broker.lanes.led] == [True, True]


async def committed(broker: Broker, group_id: str) -> int:
    partitions = [OffsetCommitRequestPartition(0, 1)]
    topics = [OffsetCommitRequestTopic("t", partitions)]
    request = OffsetCommitRequest(group_id, -1, "", topics=topics)
    answer = await call(broker, "offset_commit", 8, request)
    code: int = answer.topics[0].partitions[0].error_code
    return code


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_aborted = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def writelines(self, parts: Any) -> None:
        for part in parts:
            self.write(part)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("partition", [0, 1])
def test_what_was_appended_gets_a_closed_connection_as_it_may_yet_count(partition: int) -> None:
    async def scenario() -> None:
        machine = TwoLanes()
        async with machine.broker() as broker:
            await create(broker)
            transports = []
            for _ in range(2):
                connection = broker.connection()
                transport = Transport()
                connection.connection_made(transport)
                transports.append(transport)
                if len(transports) == 1:
                    request = produce_request("t", BATCH, partition=partition)
                    answer = ask(broker, "produce", 9, request)
                    marks = [broker.lanes.by_number[partition].mark()]
                    connection.expect_reply().wait_for(marks, durable=answer.durable)
            await broker.leading.step_down(partition)
            assert [each.is_aborted for each in transports] == [True, False]
            assert transports[0].written == b""
            await elapse(1)
            await broker.leading.take_lane(partition, machine.devices[partition])
            # It counts or not; what comes now stands behind it.
            request = produce_request("t", BATCH, partition=partition)
            ((code, offset),) = await produced(broker, request)
            assert code == NONE
            assert offset in (0, 1)

    run(Random(1), scenario())


@on_two_lanes
async def test_who_is_answered_after_its_lane_has_left_gets_a_closed_connection(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await find_coordinators(broker)
        group_id = group_in(broker, 1)
        first = await joined(broker, group_id, session_timeout_ms=600)
        assert first.error_code == NONE
        connection, transport = broker.connection(), Transport()
        connection.connection_made(transport)
        known = route(BY_MODULE["join_group"].key)
        protocols = [JoinGroupRequestProtocol("range", b"")]
        request = JoinGroupRequest(group_id, 60_000, 60_000, "", None, "consumer", protocols)
        handled = known.handler(broker, request, Call(known.api, 3, 1, None, connection))
        assert not isinstance(handled, Answer)
        connection.wait(waiting(handled), Call(known.api, 3, 1, None, connection))
        await elapse(0.1)
        # The other member leaves, so that this one has its answer: on what is not durable yet.
        ask(broker, "produce", 9, over_both())
        leaving = LeaveGroupRequest(group_id, member_id=first.member_id)
        answer = ask(broker, "leave_group", 2, leaving)
        assert answer.response.error_code == NONE
        assert not transport.written
        await broker.leading.step_down(1)
        await elapse(1)
        assert transport.written == b""
        assert transport.is_aborted


@on_two_lanes
async def test_an_answer_that_was_durable_leaves_also_after_its_lane_has_left(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await produced(broker, over_both())
        connection, transport = broker.connection(), Transport()
        connection.connection_made(transport)
        known = route(BY_MODULE["produce"].key)
        answered = Answer(ask(broker, "produce", 9, over_both()).response, broker.lanes.marks())
        await elapse(1)
        is_over = asyncio.Event()

        async def later() -> Answer:
            await is_over.wait()
            return answered

        connection.wait(later(), Call(known.api, 9, 1, None, connection))
        await broker.leading.step_down(1)
        is_over.set()
        await elapse(1)
        assert transport.written
        assert not transport.is_aborted


# Each lane for itself


def transactional_id_in(broker: Broker, lane_number: int) -> str:
    names = (f"tx{number}" for number in range(100))
    return next(
        name
        for name in names
        if broker.coordinators.of_transactional_id(name).number == lane_number
    )


async def producer_of(broker: Broker, transactional_id: str | None) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id, 60_000)
    answer = await call(broker, "init_producer_id", 4, request)
    assert answer.error_code == NONE
    return answer.producer_id, answer.producer_epoch


@on_two_lanes
async def test_no_producer_id_is_given_twice(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        await find_coordinators(broker)
        given = []
        for lane_number in range(LANE_COUNT):
            names = [None, transactional_id_in(broker, 0), transactional_id_in(broker, 1)]
            given += [await producer_of(broker, name) for name in names]
            await broker.leading.step_down(lane_number)
            await broker.leading.take_lane(lane_number, machine.devices[lane_number])
            assert [lane.number for lane in broker.lanes.led] == [0, 1]
    assert len(set(given)) == len(given)
    ids = {producer_id for producer_id, _ in given}
    assert sorted(ids) == [0, 1, 2, 1 << 40]


@plain_python
@on_two_lanes
async def test_housekeeping_leaves_a_lane_alone_that_has_left(machine: TwoLanes) -> None:
    complaints: list[Any] = []
    async with machine.broker() as broker:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        await find_coordinators(broker)
        assert broker.server is not None
        read_what_waits = broker.server.read_what_waits

        async def meanwhile() -> None:
            await read_what_waits()
            if 1 in broker.lanes.by_number:
                await broker.leading.step_down(1)

        group_id = group_in(broker, 1)
        assert (await joined(broker, group_id, session_timeout_ms=10)).error_code == NONE
        broker.server.read_what_waits = meanwhile  # type: ignore[method-assign]
        left = broker.lanes.by_number[1]
        await elapse(5)
        left.note_jump()
    assert complaints == []


@plain_python
@on_two_lanes
async def test_a_lane_that_cannot_be_replayed_is_given_free(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await broker.leading.step_down(1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("semel.lane.lane.rebuild", damaged)
            with pytest.raises(CorruptJournal):
                await broker.leading.take_lane(1, machine.devices[1])
        assert sorted(broker.journals) == [0]
        await broker.leading.take_lane(1, machine.devices[1])
        assert await produced(broker, over_both()) == [(NONE, 0), (NONE, 0)]


def damaged(*_: object) -> None:
    raise CorruptJournal("a frame cannot be read")


# The catalogue and what the other lanes have


async def delete(broker: Broker, topic: str = "t") -> int:
    request = DeleteTopicsRequest([DeleteTopicState(topic)])
    (deleted,) = (await call(broker, "delete_topics", 6, request)).responses
    code: int = deleted.error_code
    return code


EMPTY = [(NONE, 0), (NONE, 0)]


@on_two_lanes
async def test_what_a_lane_missed_while_it_was_led_elsewhere_is_made_good(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        await create(broker, "gone")
        assert await produced(broker, over_both()) == EMPTY
        await broker.leading.step_down(1)
        assert await delete(broker) == NONE
        assert await delete(broker, "gone") == NONE
        await create(broker)
        await create(broker, "new")
        await broker.leading.take_lane(1, machine.devices[1])
        assert await fetched(broker) == EMPTY
        assert await produced(broker, over_both()) == EMPTY
        assert await produced(broker, over_both("new")) == EMPTY
        assert not broker.lanes.by_number[1].view.hosts("gone")
    async with machine.broker() as broker:
        assert await fetched(broker) == [(NONE, 1), (NONE, 1)]


@on_two_lanes
async def test_a_deletion_that_only_the_catalogue_kept_is_finished_by_the_next_broker(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        assert await produced(broker, over_both()) == EMPTY
        device = machine.devices[1]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(device, "submit_write", lambda *_: None)
            assert ask(broker, "delete_topics", 6, DeleteTopicsRequest([DeleteTopicState("t")]))
            await elapse(1)
            assert not broker.lanes.by_number[1].view.hosts("t")
    machine.lose_power()
    async with machine.broker() as broker:
        assert len(broker.lanes.catalogue) == 0
        assert not broker.lanes.by_number[1].view.hosts("t")
        await create(broker)
        assert await fetched(broker) == EMPTY


@on_two_lanes
async def test_a_deletion_that_the_catalogue_lost_has_cost_no_records(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        await create(broker)
        assert await produced(broker, over_both()) == EMPTY
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(machine.devices[0], "submit_write", lambda *_: None)
            ask(broker, "delete_topics", 6, DeleteTopicsRequest([DeleteTopicState("t")]))
            # Nor is the name free before: the other lane still has its records.
            request = CreateTopicsRequest([CreatableTopic("t", LANE_COUNT, 1)])
            (created,) = ask(broker, "create_topics", 7, request).response.topics
            assert created.error_code == TopicAlreadyExists.code
            wanted = MetadataRequest([MetadataRequestTopic(name="t")])
            (described,) = ask(broker, "metadata", 9, wanted).response.topics
            assert described.error_code == LeaderNotAvailable.code
            await elapse(1)
    machine.lose_power()
    async with machine.broker() as broker:
        assert await fetched(broker) == [(NONE, 1), (NONE, 1)]


@plain_python
@on_two_lanes
async def test_a_lane_that_is_to_be_told_of_partitions_does_not_drop_them_before_the_catalogue(
    machine: TwoLanes,
) -> None:
    def full(size: int, kept_size: int) -> None:
        raise JournalFull("no room")

    async with machine.broker() as broker:
        await create(broker)
        assert await produced(broker, over_both()) == EMPTY
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(broker.journals[1], "reserve", full)
            grown = CreatePartitionsRequest([CreatePartitionsTopic("t", 2 * LANE_COUNT)])
            (result,) = (await call(broker, "create_partitions", 3, grown)).results
            assert result.error_code == NONE
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(machine.devices[0], "submit_write", lambda *_: None)
            ask(broker, "delete_topics", 6, DeleteTopicsRequest([DeleteTopicState("t")]))
            # Time enough for lanes to be told what they had no room for.
            await elapse(60)
            assert broker.lanes.by_number[1].view.hosts("t")
    machine.lose_power()
    async with machine.broker() as broker:
        assert await fetched(broker) == [(NONE, 1), (NONE, 1)]


@on_two_lanes
async def test_a_topic_that_the_catalogue_lost_is_dropped_when_it_is_led_again(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        ask(broker, "create_topics", 7, CreateTopicsRequest([CreatableTopic("t", LANE_COUNT, 1)]))
        assert broker.lanes.by_number[1].view.hosts("t")
        await broker.leading.step_down(0)
        await broker.leading.take_lane(0, machine.devices[0])
        assert "t" not in broker.lanes.catalogue
        assert not broker.lanes.by_number[1].view.hosts("t")


async def refusals_elsewhere(broker: Broker) -> set[int]:
    """Of the partition in lane 1, by all that ask its leader without reading or writing."""
    ends = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(1, -1, -1)])])
    listed = await call(broker, "list_offsets", 6, ends)
    removal = [DeleteRecordsTopic("t", [DeleteRecordsPartition(1, 0)])]
    deleted = await call(broker, "delete_records", 2, DeleteRecordsRequest(removal, 1_000))
    writers = [TopicRequest("t", [1])]
    described = await call(broker, "describe_producers", 0, DescribeProducersRequest(writers))
    terms = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(1, -1, 0)])]
    epochs = OffsetForLeaderEpochRequest(topics=terms)
    ended = await call(broker, "offset_for_leader_epoch", 4, epochs)
    answers = (listed, deleted, described, ended)
    return {each.topics[0].partitions[0].error_code for each in answers}


@plain_python
@on_two_lanes
async def test_a_lane_without_room_is_told_of_a_topic_and_of_its_end_later(
    machine: TwoLanes,
) -> None:
    def full(size: int, kept_size: int) -> None:
        raise JournalFull("no room")

    async with machine.broker() as broker:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(broker.journals[1], "reserve", full)
            await create(broker)
            refused = (NotLeaderOrFollower.code, -1)
            assert await produced(broker, over_both()) == [(NONE, 0), refused]
            assert await fetched(broker) == [(NONE, 1), (NotLeaderOrFollower.code, 0)]
            assert await refusals_elsewhere(broker) == {NotLeaderOrFollower.code}
        await elapse(60)
        assert await produced(broker, over_both()) == [(NONE, 1), (NONE, 0)]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(broker.journals[1], "reserve", full)
            assert await delete(broker) == NONE
            request = CreateTopicsRequest([CreatableTopic("t", LANE_COUNT, 1)])
            (created,) = (await call(broker, "create_topics", 7, request)).topics
            assert created.error_code == TopicAlreadyExists.code
        await elapse(60)
        await create(broker)
        assert await fetched(broker) == EMPTY


@on_two_lanes
async def test_a_lane_that_cannot_drop_what_was_deleted_is_not_led(machine: TwoLanes) -> None:
    def full(*_: object) -> None:
        raise JournalFull("no room")

    async with machine.broker() as broker:
        await create(broker)
        await produced(broker, over_both())
        await broker.leading.step_down(1)
        assert await delete(broker) == NONE
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("semel.journal.file.journal.FileJournal.reserve", full)
            with pytest.raises(JournalFull):
                await broker.leading.take_lane(1, machine.devices[1])
        assert sorted(broker.lanes.by_number) == sorted(broker.journals) == [0]
        await broker.leading.take_lane(1, machine.devices[1])
        await create(broker)
        assert await fetched(broker) == EMPTY


@on_two_lanes
async def test_offsets_in_a_lane_without_any_of_a_topics_partitions_go_with_the_topic(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await find_coordinators(broker)
        group_id = group_in(broker, 1)
        for offset in (1, -1):
            request = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
            assert (await call(broker, "create_topics", 7, request)).topics[0].error_code == NONE
            assert not broker.lanes.by_number[1].view.hosts("t")
            if offset == 1:
                assert await committed(broker, group_id) == NONE
            wanted = [OffsetFetchRequestTopic("t", [0])]
            asking = OffsetFetchRequest(group_id=group_id, topics=wanted)
            found = await call(broker, "offset_fetch", 7, asking)
            assert found.topics[0].partitions[0].committed_offset == offset
            assert await delete(broker) == NONE
            await elapse(1)


@pytest.mark.parametrize("is_made_again_before", [False, True])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_offsets_of_a_deleted_topic_do_not_outlive_a_power_loss_in_a_lane_without_its_partitions(
    is_made_again_before: bool, has_checkpoint: bool
) -> None:
    async def scenario() -> None:
        machine = TwoLanes()
        only_one = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
        async with machine.broker() as broker:
            await find_coordinators(broker)
            group_id = group_in(broker, 1)
            await call(broker, "create_topics", 7, only_one)
            assert await committed(broker, group_id) == NONE
            if has_checkpoint:
                await broker.journals[1].checkpoint_now()
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(machine.devices[1], "submit_write", lambda *_: None)
                ask(broker, "delete_topics", 6, DeleteTopicsRequest([DeleteTopicState("t")]))
                await elapse(1)
                if is_made_again_before:
                    (made,) = ask(broker, "create_topics", 7, only_one).response.topics
                    assert made.error_code == NONE
                    await elapse(1)
        machine.lose_power()
        async with machine.broker() as broker:
            if not is_made_again_before:
                await call(broker, "create_topics", 7, only_one)
            wanted = [OffsetFetchRequestTopic("t", [0])]
            asking = OffsetFetchRequest(group_id=group_id, topics=wanted)
            found = await call(broker, "offset_fetch", 7, asking)
            assert found.topics[0].partitions[0].committed_offset == -1
            assert await committed(broker, group_id) == NONE

    run(Random(1), scenario())


@on_two_lanes
async def test_a_checkpoint_of_a_lane_knows_which_topic_it_has_partitions_of(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        topic_id = broker.lanes.catalogue.named("t").topic_id
        await produced(broker, over_both())
        await broker.journals[1].checkpoint_now()
    async with machine.broker() as broker:
        assert broker.lanes.by_number[1].view.topic_id("t") == topic_id
        assert len(broker.lanes.by_number[1].view.catalogue) == 0
        assert await fetched(broker) == [(NONE, 1), (NONE, 1)]


@on_two_lanes
async def test_a_checkpoint_that_does_not_know_the_topic_keeps_its_records(
    machine: TwoLanes,
) -> None:
    async with machine.broker() as broker:
        await create(broker)
        topic_id = broker.lanes.catalogue.named("t").topic_id
        await produced(broker, over_both())
        # As it was stored before.
        broker.lanes.by_number[1]._state.topic_ids["t"] = b""
        await broker.journals[1].checkpoint_now()
    async with machine.broker() as broker:
        assert broker.lanes.by_number[1].view.topic_id("t") == topic_id
        assert await fetched(broker) == [(NONE, 1), (NONE, 1)]


@on_two_lanes
async def test_a_name_is_free_when_its_deletion_is_answered(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        for _ in range(3):
            await create(broker)
            assert await produced(broker, over_both()) == EMPTY
            assert await delete(broker) == NONE


# Topics that are pinned to a lane


async def create_in(
    broker: Broker, lane: str, topic: str = "t", *, only_check: bool = False
) -> tuple[int, str]:
    pin = CreatableTopicConfig("semel.lane", lane)
    wanted = CreatableTopic(topic, 2, 1, configs=[pin])
    request = CreateTopicsRequest([wanted], validate_only=only_check)
    (created,) = (await call(broker, "create_topics", 7, request)).topics
    return created.error_code, created.error_message or ""


async def pinned_to(broker: Broker, topic: str = "t") -> str:
    resource = DescribeConfigsResource(2, topic, ["semel.lane"])
    (found,) = (
        await call(broker, "describe_configs", 4, DescribeConfigsRequest([resource]))
    ).results
    (config,) = found.configs
    return str(config.value)


@plain_python
@pytest.mark.parametrize("is_read_from_checkpoint", [False, True])
def test_a_topic_that_is_pinned_lies_whole_in_its_lane_also_when_it_grows(
    is_read_from_checkpoint: bool,
) -> None:
    async def scenario() -> None:
        machine = TwoLanes()
        async with machine.broker() as broker:
            await create(broker, "spread")
            assert await create_in(broker, "1") == (NONE, "")
            assert await create_in(broker, "0", "other") == (NONE, "")
            growing = CreatePartitionsRequest([CreatePartitionsTopic("t", 4)])
            (grown,) = (await call(broker, "create_partitions", 3, growing)).results
            assert grown.error_code == NONE
            assert await produced(broker, over_both()) == EMPTY
            if is_read_from_checkpoint:
                for journal in broker.journals.values():
                    await journal.checkpoint_now()
        async with machine.broker() as broker:
            catalogue = broker.lanes.catalogue
            lanes = {
                name: [list(catalogue.named(name).indexes_in(lane)) for lane in range(LANE_COUNT)]
                for name in ("t", "other", "spread")
            }
            assert lanes == {"t": [[], [0, 1, 2, 3]], "other": [[0, 1], []], "spread": [[0], [1]]}
            assert [lane.view.hosts_partition("t", 3) for lane in broker.lanes.led] == [False, True]
            assert await fetched(broker) == [(NONE, 1), (NONE, 1)]
            assert [await pinned_to(broker, name) for name in lanes] == ["1", "0", "-1"]
            # And is dropped from there.
            assert await delete(broker) == NONE
            assert await create_in(broker, "0") == (NONE, "")
            assert await fetched(broker) == EMPTY

    run(Random(1), scenario())


@on_two_lanes
async def test_a_pin_is_of_a_lane_that_is_there_and_stays(machine: TwoLanes) -> None:
    async with machine.broker() as broker:
        for wrong in ("2", "-2", "first", ""):
            for only_check in (True, False):
                code, message = await create_in(broker, wrong, only_check=only_check)
                assert code == InvalidConfig.code
                assert "lane" in message
        assert await create_in(broker, "1") == (NONE, "")
        for pins in ([AlterableConfig("semel.lane", "0")], []):
            altering = AlterConfigsRequest([AlterConfigsResource(2, "t", pins)])
            (refused,) = (await call(broker, "alter_configs", 2, altering)).responses
            assert refused.error_code == InvalidConfig.code
            assert "stays as it is" in (refused.error_message or "")
        kept = [AlterableConfig("semel.lane", "1"), AlterableConfig("retention.ms", "1000")]
        altering = AlterConfigsRequest([AlterConfigsResource(2, "t", kept)])
        (done,) = (await call(broker, "alter_configs", 2, altering)).responses
        assert done.error_code == NONE
        assert await pinned_to(broker) == "1"

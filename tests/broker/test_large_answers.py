"""What tells of very many partitions is put together in steps, between which others are served."""

from typing import Any

from semel.broker.answer import NOT_ASKED_FOR, Answer, Call, Handled, waiting
from semel.broker.dispatch import encode_in_steps
from semel.broker.handlers.describe_log_dirs import PARTITIONS_AT_ONCE as DIRS_AT_ONCE
from semel.broker.handlers.describe_log_dirs import describe_log_dirs
from semel.broker.handlers.describe_producers import PRODUCERS_AT_ONCE, describe_producers
from semel.broker.handlers.describe_topic_partitions import (
    PARTITION_COUNT_MAX,
    describe_topic_partitions,
)
from semel.broker.handlers.describe_topic_partitions import TOPICS_AT_ONCE as TOPICS_PAGED_AT_ONCE
from semel.broker.handlers.list_config_resources import TOPICS_AT_ONCE as TOPICS_LISTED_AT_ONCE
from semel.broker.handlers.list_config_resources import list_config_resources
from semel.broker.handlers.list_groups import GROUPS_AT_ONCE, list_groups
from semel.broker.handlers.list_transactions import IDS_AT_ONCE, list_transactions
from semel.broker.handlers.metadata import PARTITIONS_AT_ONCE, PARTITIONS_PER_TOPIC, metadata
from semel.groups.commands import NO_MEMBER_ID, CommitOffsets, OffsetToCommit
from semel.lane.group_commands import AskGroups
from semel.lane.topics import CreateTopic
from semel.lane.transactions import Transact
from semel.log.producers import Producer
from semel.transactions.commands import InitProducer
from semel.types import GroupId, Offset, ProducerEpoch, ProducerId, TopicPartition, TransactionalId
from semel.wire.apis import BY_KEY, Api
from semel.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from semel.wire.messages.list_config_resources import ListConfigResourcesRequest
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.wire.primitives import PIECES_AT_ONCE
from support.handled import CONFIG, Machine, Peer, call, on_a
from support.inside import partitions_of, state_of
from support.work import work_of

METADATA = BY_KEY[3]
DESCRIBE_LOG_DIRS = BY_KEY[35]
PIECES_PER_PARTITION_MAX = 8


def of_partitions(count: int) -> MetadataResponse:
    partitions = [MetadataResponsePartition(0, index, 1, 2, [1], [1]) for index in range(count)]
    return MetadataResponse(topics=[MetadataResponseTopic(0, "t", bytes(16), False, partitions)])


def sizes_of_partitions(count: int) -> DescribeLogDirsResponse:
    partitions = [DescribeLogDirsPartition(index, 7, 0, False) for index in range(count)]
    result = DescribeLogDirsResult(0, "/", [DescribeLogDirsTopic("t", partitions)])
    return DescribeLogDirsResponse(results=[result])


def step_count(api: Api, response: object, version: int) -> int:
    return sum(1 for _ in api.encode_response_in_steps(response, version))


def test_a_response_is_encoded_in_steps_of_a_few_partitions() -> None:
    for api, response_of in ((METADATA, of_partitions), (DESCRIBE_LOG_DIRS, sizes_of_partitions)):
        for version in range(api.version_min, api.version_max + 1):
            small = response_of(PIECES_AT_ONCE // PIECES_PER_PARTITION_MAX - 10)
            assert step_count(api, small, version) == 0
            few = step_count(api, response_of(10_000), version)
            assert few > 1
            assert abs(step_count(api, response_of(20_000), version) - 2 * few) <= 1


def test_topics_of_one_partition_each_are_steps_as_well() -> None:
    response = of_partitions(1)
    response.topics *= 10_000
    assert step_count(METADATA, response, METADATA.version_max) > 10


@on_a(Machine, CONFIG)
async def test_in_steps_or_at_once_the_same_is_written(machine: Machine) -> None:
    for api, response_of in ((METADATA, of_partitions), (DESCRIBE_LOG_DIRS, sizes_of_partitions)):
        for version in range(api.version_min, api.version_max + 1):
            asked, answer = Call(api, version, 9, None, Peer()), Answer(response_of(3000))
            parts = await encode_in_steps(asked, answer)
            assert b"".join(parts) == b"".join(api.encode_response(answer.response, version))


@on_a(Machine, CONFIG)
async def test_a_large_topic_is_described_later_and_a_small_one_at_once(machine: Machine) -> None:
    async with machine.broker() as broker:
        large = 3 * PARTITIONS_AT_ONCE
        for name, count in (("small", 3), ("large", large)):
            broker.topics.create(CreateTopic(name, count, {}))
        asked = Call(METADATA, METADATA.version_max, 1, None, Peer())
        small = metadata(broker, MetadataRequest([MetadataRequestTopic(name="small")]), asked)
        assert isinstance(small, Answer)
        handled = metadata(broker, MetadataRequest([MetadataRequestTopic(name="large")]), asked)
        assert not isinstance(handled, Answer)
        waiting(handled).close()
        response = await call(broker, "metadata", METADATA.version_max, MetadataRequest(None))
        found = {topic.name: topic.partitions for topic in response.topics}
        assert [each.partition_index for each in found["small"]] == [*range(3)]
        assert [each.partition_index for each in found["large"]] == [*range(large)]


def steps_of(handled: Handled) -> tuple[int, Any]:
    """How often it lets others go on, and what it answers."""
    assert not isinstance(handled, Answer)
    steps, count = waiting(handled), 0
    while True:
        try:
            steps.send(None)
        except StopIteration as ended:
            return count, ended.value.response
        count += 1


@on_a(Machine, CONFIG)
async def test_lists_of_all_groups_and_transactions_let_others_go_on(machine: Machine) -> None:
    async with machine.broker() as broker:
        lane = broker.lanes.controller
        group_count, id_count = 5 * GROUPS_AT_ONCE + 1, 3 * IDS_AT_ONCE + 1
        broker.topics.create(CreateTopic("t", 1, {}))
        for number in range(group_count):
            offsets = (OffsetToCommit("t", 0, number),)
            group_id = GroupId(f"g{number}")
            lane.submit(AskGroups(CommitOffsets(group_id, -1, NO_MEMBER_ID, None, offsets)))
        for number in range(id_count):
            name = TransactionalId(f"tx{number}")
            lane.submit(Transact(name, InitProducer(name, 60_000)))
        groups_call = Call(BY_KEY[16], 5, 1, None, Peer())
        ids_call = Call(BY_KEY[66], 1, 1, None, Peer())
        steps, listed = steps_of(list_groups(broker, ListGroupsRequest(), groups_call))
        assert steps == 5
        assert [each.group_id for each in listed.groups] == [f"g{n}" for n in range(group_count)]
        steps, listed = steps_of(list_transactions(broker, ListTransactionsRequest(), ids_call))
        assert steps == 3
        ids = [each.transactional_id for each in listed.transaction_states]
        assert ids == [f"tx{number}" for number in range(id_count)]


@on_a(Machine, CONFIG)
async def test_lists_of_all_topics_let_others_go_on(machine: Machine) -> None:
    async with machine.broker() as broker:
        count = 3 * TOPICS_LISTED_AT_ONCE + 1
        names = sorted(f"t{number}" for number in range(count))
        for name in reversed(names):
            broker.topics.create(CreateTopic(name, 1, {}))
        asked = Call(METADATA, METADATA.version_max, 1, None, Peer())
        for tells in (False, True):
            request = MetadataRequest(None, include_topic_authorized_operations=tells)
            steps, described = steps_of(metadata(broker, request, asked))
            assert steps >= count * PARTITIONS_PER_TOPIC // PARTITIONS_AT_ONCE
            assert [each.name for each in described.topics] == names
            told = {each.topic_authorized_operations == NOT_ASKED_FOR for each in described.topics}
            assert told == {not tells}
        asked = Call(BY_KEY[74], 1, 1, None, Peer())
        steps, listed = steps_of(
            list_config_resources(broker, ListConfigResourcesRequest([2]), asked)
        )
        assert steps == 3
        assert [each.resource_name for each in listed.config_resources] == names
        steps, sizes = steps_of(
            describe_log_dirs(
                broker, DescribeLogDirsRequest(None), Call(DESCRIBE_LOG_DIRS, 5, 1, None, Peer())
            )
        )
        assert steps >= count // DIRS_AT_ONCE
        assert [each.name for each in sizes.results[0].topics] == names


@on_a(Machine, CONFIG)
async def test_a_page_of_topics_is_as_much_work_wherever_it_begins(machine: Machine) -> None:
    """Also for who may see few of them, in steps."""
    async with machine.broker() as broker:
        count = 5 * TOPICS_PAGED_AT_ONCE
        names = sorted(f"t{number}" for number in range(count))
        for name in names:
            broker.topics.create(CreateTopic(name, 1, {}))
        asked = Call(BY_KEY[75], 0, 1, None, Peer())

        def page(first: str) -> tuple[int, Any]:
            request = DescribeTopicPartitionsRequest([], 3, Cursor(first, 0))
            return steps_of(describe_topic_partitions(broker, request, asked))

        steps, described = page(names[-2])
        assert (steps, described.next_cursor) == (0, None)
        assert [each.name for each in described.topics] == names[-2:]
        steps, described = page(names[0])
        assert steps == PARTITION_COUNT_MAX // TOPICS_PAGED_AT_ONCE
        assert [each.name for each in described.topics] == names[:3]
        assert described.next_cursor == Cursor(names[3], 0)


@on_a(Machine, CONFIG)
async def test_very_many_producers_are_described_in_steps(machine: Machine) -> None:
    async with machine.broker() as broker:
        broker.topics.create(CreateTopic("t", 1, {}))
        (partition,) = partitions_of(state_of(broker), "t")
        count = 4 * PRODUCERS_AT_ONCE + 1
        for number in range(count):
            partition.producers[number] = Producer(ProducerEpoch(7), 0)
        request = DescribeProducersRequest([TopicRequest("t", [0])])
        asked = Call(BY_KEY[61], 0, 1, None, Peer())
        steps, described = steps_of(describe_producers(broker, request, asked))
        assert steps == 4
        (told,) = described.topics[0].partitions
        assert [each.producer_id for each in told.active_producers] == [*range(count)]
        view = broker.lanes.controller.view
        assert view.open_in(TopicPartition("t", 0), ProducerId(3)) is None
        partition.transactions.wrote(ProducerId(3), Offset(5))
        few = work_of(lambda: view.open_in(TopicPartition("t", 0), ProducerId(3)))
        open_since = view.open_in(TopicPartition("t", 0), ProducerId(3))
        assert open_since is not None
        assert (open_since.producer_epoch, open_since.transaction_start_offset) == (7, 5)
        assert few.lines < PRODUCERS_AT_ONCE

"""What tells of very many partitions is put together in steps, between which others are served."""

from typing import Any

from semel.broker.answer import Answer, Call, Handled
from semel.broker.dispatch import encode_in_steps
from semel.broker.handlers.list_groups import GROUPS_AT_ONCE, list_groups
from semel.broker.handlers.list_transactions import IDS_AT_ONCE, list_transactions
from semel.broker.handlers.metadata import PARTITIONS_AT_ONCE, metadata
from semel.groups.commands import NO_MEMBER_ID, CommitOffsets, OffsetToCommit
from semel.lane.group_commands import AskGroups
from semel.lane.topics import CreateTopic
from semel.lane.transactions import Transact
from semel.transactions.commands import InitProducer
from semel.types import GroupId, TransactionalId
from semel.wire.apis import BY_KEY, Api
from semel.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
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
        handled.close()
        response = await call(broker, "metadata", METADATA.version_max, MetadataRequest(None))
        found = {topic.name: topic.partitions for topic in response.topics}
        assert [each.partition_index for each in found["small"]] == [*range(3)]
        assert [each.partition_index for each in found["large"]] == [*range(large)]


def steps_of(handled: Handled) -> tuple[int, Any]:
    """How often it lets others go on, and what it answers."""
    assert not isinstance(handled, Answer)
    count = 0
    while True:
        try:
            handled.send(None)
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

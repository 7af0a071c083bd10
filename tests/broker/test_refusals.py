"""Each API refuses with Kafka's code what cannot be, and appends nothing."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from semel.broker.broker import Broker
from semel.broker.config import BrokerConfig
from semel.journal.file.memory import MemoryDevice
from semel.wire.messages.alter_configs import AlterConfigsRequest
from semel.wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from semel.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from semel.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from semel.wire.messages.delete_groups import DeleteGroupsRequest
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.fetch import FetchRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
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
from semel.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.wire.messages.sync_group import SyncGroupRequest
from support.handled import CONFIG, call, opened, started
from support.inside import journal_of, state_of
from support.raw_client import fetch_request
from support.seeded_loop import run

OUT_OF_RANGE, UNKNOWN_TOPIC, INVALID_TOPIC = 1, 3, 17
INVALID_GROUP, UNKNOWN_MEMBER = 24, 25
EXISTS, INVALID_PARTITIONS, INVALID_FACTOR, INVALID_ASSIGNMENT = 36, 37, 38, 39
INVALID_CONFIG, INVALID_REQUEST, NO_SUCH_TIME = 40, 42, 35
GROUP_NOT_FOUND, SESSION_NOT_FOUND, DELETION_DISABLED = 69, 70, 73
FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_ID = 74, 75, 100
TOPIC, BROKER = 2, 4

Ask = Callable[[str, int, Any], Awaitable[Any]]


def with_broker(scenario: Callable[[Ask], Awaitable[None]], config: BrokerConfig = CONFIG) -> None:
    """Run it against a broker with one topic `t`; nothing that it asks may append a frame."""
    rng = Random(1)

    async def main() -> None:
        broker = opened(MemoryDevice(rng), rng, config)
        async with started(broker):
            await call(broker, "create_topics", 7, CreateTopicsRequest([CreatableTopic("t", 2, 1)]))
            await call(
                broker, "find_coordinator", 4, FindCoordinatorRequest(coordinator_keys=["g"])
            )
            frames = journal_of(broker).frames_appended

            async def ask(module: str, version: int, request: Any) -> Any:
                return await call(broker, module, version, request)

            await scenario(ask)
            assert journal_of(broker).frames_appended == frames

    run(rng, main())


def test_fetch() -> None:
    async def scenario(ask: Ask) -> None:
        async def code(topic: str, offset: int, **options: int) -> int:
            request = fetch_request(topic, offset, **options)
            answer = await ask("fetch", 11, request)
            return int(answer.responses[0].partitions[0].error_code)

        assert await code("none", 0) == UNKNOWN_TOPIC
        assert await code("t", -1) == OUT_OF_RANGE
        assert await code("t", 1) == OUT_OF_RANGE
        assert await code("t", 0, leader_epoch=7) == UNKNOWN_EPOCH
        assert await code("t", 0) == 0
        # A refusal is not kept waiting for records.
        assert await code("none", 0, max_wait_ms=10**6) == UNKNOWN_TOPIC
        session = await ask("fetch", 11, FetchRequest(session_id=5, session_epoch=1))
        assert session.error_code == SESSION_NOT_FOUND

    with_broker(scenario)


def test_list_offsets() -> None:
    async def scenario(ask: Ask) -> None:
        async def code(topic: str, partition: int, timestamp: int, epoch: int = -1) -> int:
            wanted = ListOffsetsPartition(partition, epoch, timestamp)
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [wanted])])
            answer = await ask("list_offsets", 7, request)
            return int(answer.topics[0].partitions[0].error_code)

        assert await code("none", 0, -1) == UNKNOWN_TOPIC
        assert await code("t", 2, -1) == UNKNOWN_TOPIC
        assert await code("t", -1, -1) == UNKNOWN_TOPIC
        assert await code("t", 0, -9) == NO_SUCH_TIME
        assert await code("t", 0, -1, 3) == UNKNOWN_EPOCH
        assert await code("t", 0, 5) == 0

    with_broker(scenario)


def test_offset_for_leader_epoch() -> None:
    async def scenario(ask: Ask) -> None:
        async def look_up(topic: str, asked: int, current: int = -1) -> tuple[int, int, int]:
            wanted = OffsetForLeaderPartition(0, current, asked)
            request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic, [wanted])])
            answer = await ask("offset_for_leader_epoch", 4, request)
            (found,) = answer.topics[0].partitions
            return found.error_code, found.leader_epoch, found.end_offset

        assert (await look_up("none", 0))[0] == UNKNOWN_TOPIC
        assert (await look_up("t", 0, current=9))[0] == UNKNOWN_EPOCH
        assert await look_up("t", 9) == (0, -1, -1)
        assert await look_up("t", 0) == (0, 0, 0)

    with_broker(scenario)


def test_metadata() -> None:
    async def scenario(ask: Ask) -> None:
        async def code(version: int, topic: MetadataRequestTopic, *, create: bool = False) -> int:
            request = MetadataRequest([topic], allow_auto_topic_creation=create)
            answer = await ask("metadata", version, request)
            return int(answer.topics[0].error_code)

        assert await code(12, MetadataRequestTopic(name="none")) == UNKNOWN_TOPIC
        assert await code(12, MetadataRequestTopic(name="a b"), create=True) == INVALID_TOPIC
        assert await code(12, MetadataRequestTopic(name=""), create=True) == INVALID_TOPIC
        assert await code(12, MetadataRequestTopic(name="x" * 250), create=True) == INVALID_TOPIC
        for version in (10, 11, 12):
            assert await code(version, MetadataRequestTopic(b"?" * 16, None)) == UNKNOWN_ID

    with_broker(scenario)


def test_topics_are_not_made_by_asking_where_that_is_switched_off() -> None:
    async def scenario(ask: Ask) -> None:
        request = MetadataRequest([MetadataRequestTopic(name="none")])
        answer = await ask("metadata", 12, request)
        assert answer.topics[0].error_code == UNKNOWN_TOPIC

    with_broker(scenario, BrokerConfig(auto_create_topics_enable=False))


def test_create_topics() -> None:
    async def scenario(ask: Ask) -> None:
        async def codes(*topics: CreatableTopic) -> list[int]:
            answer = await ask("create_topics", 7, CreateTopicsRequest(list(topics)))
            return [result.error_code for result in answer.topics]

        assert await codes(CreatableTopic("t", 1, 1)) == [EXISTS]
        assert await codes(CreatableTopic("..", 1, 1)) == [INVALID_TOPIC]
        assert await codes(CreatableTopic("n", 0, 1)) == [INVALID_PARTITIONS]
        assert await codes(CreatableTopic("n", -2, 1)) == [INVALID_PARTITIONS]
        assert await codes(CreatableTopic("n", 2**31 - 1, 1)) == [INVALID_PARTITIONS]
        assert await codes(CreatableTopic("n", 1, 2)) == [INVALID_FACTOR]
        assert await codes(CreatableTopic("__transaction_state", 1, 1)) == [INVALID_REQUEST]
        twice = CreatableTopic("n", 1, 1)
        assert await codes(twice, twice) == [INVALID_REQUEST] * 2
        for broker_ids, index, code in (
            ([2], 0, INVALID_ASSIGNMENT),
            ([1, 1], 0, INVALID_ASSIGNMENT),
            ([1], 1, INVALID_ASSIGNMENT),
        ):
            by_hand = [CreatableReplicaAssignment(index, broker_ids)]
            assert await codes(CreatableTopic("n", -1, -1, by_hand)) == [code]
        both = CreatableTopic("n", 1, 1, [CreatableReplicaAssignment(0, [1])])
        assert await codes(both) == [INVALID_REQUEST]
        checked = CreateTopicsRequest([CreatableTopic("n", 1, 1)], validate_only=True)
        assert (await ask("create_topics", 7, checked)).topics[0].error_code == 0

    with_broker(scenario)


def test_create_partitions() -> None:
    async def scenario(ask: Ask) -> None:
        async def code(wanted: CreatePartitionsTopic, *, only_check: bool = False) -> int:
            request = CreatePartitionsRequest([wanted], validate_only=only_check)
            answer = await ask("create_partitions", 3, request)
            return int(answer.results[0].error_code)

        assert await code(CreatePartitionsTopic("none", 2)) == UNKNOWN_TOPIC
        assert await code(CreatePartitionsTopic("t", 2)) == INVALID_PARTITIONS
        assert await code(CreatePartitionsTopic("t", 1)) == INVALID_PARTITIONS
        assert await code(CreatePartitionsTopic("t", 10**6)) == INVALID_PARTITIONS
        assert await code(CreatePartitionsTopic("__consumer_offsets", 99)) == INVALID_REQUEST
        elsewhere = [CreatePartitionsAssignment([2])]
        assert await code(CreatePartitionsTopic("t", 3, elsewhere)) == INVALID_ASSIGNMENT
        assert await code(CreatePartitionsTopic("t", 4), only_check=True) == 0

    with_broker(scenario)


def test_delete_topics_and_records() -> None:
    async def scenario(ask: Ask) -> None:
        async def deleted(topic: DeleteTopicState) -> int:
            answer = await ask("delete_topics", 6, DeleteTopicsRequest([topic]))
            return int(answer.responses[0].error_code)

        assert await deleted(DeleteTopicState("none")) == UNKNOWN_TOPIC
        assert await deleted(DeleteTopicState(None, b"?" * 16)) == UNKNOWN_ID
        assert await deleted(DeleteTopicState("__consumer_offsets")) == INVALID_REQUEST

        async def emptied(topic: str, partition: int, offset: int) -> int:
            wanted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
            answer = await ask("delete_records", 2, DeleteRecordsRequest([wanted]))
            return int(answer.topics[0].partitions[0].error_code)

        assert await emptied("none", 0, 0) == UNKNOWN_TOPIC
        assert await emptied("t", 5, 0) == UNKNOWN_TOPIC
        assert await emptied("t", 0, 1) == OUT_OF_RANGE
        assert await emptied("t", 0, -2) == OUT_OF_RANGE
        assert await emptied("__consumer_offsets", 0, 0) == INVALID_TOPIC
        assert await emptied("t", 0, -1) == 0

    with_broker(scenario)


def test_topics_cannot_be_deleted_where_that_is_switched_off() -> None:
    async def scenario(ask: Ask) -> None:
        answer = await ask("delete_topics", 6, DeleteTopicsRequest([DeleteTopicState("t")]))
        assert answer.responses[0].error_code == DELETION_DISABLED

    with_broker(scenario, BrokerConfig(delete_topic_enable=False))


def test_settings() -> None:
    async def scenario(ask: Ask) -> None:
        async def described(kind: int, name: str) -> int:
            request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])
            answer = await ask("describe_configs", 4, request)
            return int(answer.results[0].error_code)

        assert await described(TOPIC, "none") == UNKNOWN_TOPIC
        assert await described(BROKER, "7") == INVALID_REQUEST
        assert await described(99, "t") == INVALID_REQUEST
        assert await described(BROKER, "1") == await described(TOPIC, "t") == 0

        async def altered(
            name: str, operation: int, value: str | None, kind: int = TOPIC, topic: str = "t"
        ) -> int:
            entry = AlterableConfig(name, operation, value)
            resource = AlterConfigsResource(kind, topic, [entry])
            request = IncrementalAlterConfigsRequest([resource])
            answer = await ask("incremental_alter_configs", 1, request)
            return int(answer.responses[0].error_code)

        assert await altered("retention.ms", 0, "1", topic="none") == UNKNOWN_TOPIC
        assert await altered("retention.ms", 0, "1", kind=BROKER, topic="1") == INVALID_CONFIG
        assert await altered("retention.ms", 0, None) == INVALID_REQUEST
        assert await altered("retention.ms", 0, "x") == INVALID_CONFIG
        assert await altered("retention.ms", 2, "1") == INVALID_CONFIG
        assert await altered("retention.ms", 9, "1") in (INVALID_CONFIG, INVALID_REQUEST)
        assert await altered("cleanup.policy", 9, "compact") == INVALID_REQUEST
        assert await altered("none", 0, "1") == INVALID_CONFIG
        replaced = AlterConfigsRequest([ReplacedResource(BROKER, "7")])
        answer = await ask("alter_configs", 2, replaced)
        assert answer.responses[0].error_code == INVALID_REQUEST

    with_broker(scenario)


def test_coordinators() -> None:
    async def scenario(ask: Ask) -> None:
        async def code(key: str, kind: int) -> int:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            answer = await ask("find_coordinator", 4, request)
            return int(answer.coordinators[0].error_code)

        assert await code("g", 9) == INVALID_REQUEST
        assert await code("", 0) == INVALID_GROUP

    with_broker(scenario)


def test_groups() -> None:
    async def scenario(ask: Ask) -> None:
        beat = await ask("heartbeat", 4, HeartbeatRequest("none", 1, "m"))
        assert beat.error_code == UNKNOWN_MEMBER
        synced = await ask("sync_group", 5, SyncGroupRequest("none", 1, "m"))
        assert synced.error_code == UNKNOWN_MEMBER
        described = await ask("describe_groups", 5, DescribeGroupsRequest(["none"]))
        assert described.groups[0].group_state == "Dead"
        deleted = await ask("delete_groups", 3, DeleteGroupsRequest(["none"]))
        assert deleted.results[0].error_code == GROUP_NOT_FOUND
        assert "none" in deleted.results[0].error_message
        offset = OffsetCommitRequestPartition(0, committed_offset=1)
        commit = OffsetCommitRequest(
            "g", -1, "", None, topics=[OffsetCommitRequestTopic("none", partitions=[offset])]
        )
        answer = await ask("offset_commit", 8, commit)
        assert answer.topics[0].partitions[0].error_code == UNKNOWN_TOPIC

    with_broker(scenario)


def test_an_older_leader_epoch_is_fenced_after_a_power_loss() -> None:
    rng = Random(1)

    async def main() -> None:
        device = MemoryDevice(rng)
        broker = opened(device, rng)
        async with started(broker):
            await call(broker, "create_topics", 7, CreateTopicsRequest([CreatableTopic("t", 1, 1)]))
        device.power_loss()
        broker = opened(device, rng)
        async with started(broker):
            assert state_of(broker).term == 1
            codes = [await _fetch_code(broker, epoch) for epoch in (0, 1, 2)]
        assert codes == [FENCED_EPOCH, 0, UNKNOWN_EPOCH]

    run(rng, main())


async def _fetch_code(broker: Broker, leader_epoch: int) -> int:
    answer = await call(broker, "fetch", 11, fetch_request("t", 0, leader_epoch=leader_epoch))
    return int(answer.responses[0].partitions[0].error_code)

"""confluent-kafka's admin client: topics, settings, groups, offsets, records, cluster."""

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from support.clients import (
    DEADLINE_S,
    QUIET,
    Confluent,
    Sent,
    confluent_consumer,
    poll_messages,
)

T = TypeVar("T")


@pytest.fixture
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers, **QUIET})


def only(futures: "Mapping[Any, Future[T]]") -> T:
    (future,) = futures.values()
    return future.result(DEADLINE_S)


def refusal(futures: "Mapping[Any, Future[Any]]") -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        only(futures)
    error: KafkaError = raised.value.args[0]
    return error


def partition_count(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(timeout=DEADLINE_S).topics[topic].partitions)


def topic_configs(admin: AdminClient, topic: str) -> dict[str, str]:
    described = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return {name: entry.value for name, entry in described.items()}


def test_topics_are_created_described_extended_and_deleted(admin: AdminClient, topic: str) -> None:
    only(admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "1000"})]))
    described = only(admin.describe_topics(confluent_kafka.TopicCollection([topic])))
    assert [part.leader.id for part in described.partitions] == [1, 1]
    assert topic_configs(admin, topic)["retention.ms"] == "1000"
    only(admin.create_partitions([NewPartitions(topic, 5)]))
    assert partition_count(admin, topic) == 5
    only(admin.delete_topics([topic]))
    assert topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_what_cannot_be_is_refused_with_kafkas_errors(admin: AdminClient, topic: str) -> None:
    only(admin.create_topics([NewTopic(topic, 2)]))
    errors = {
        "exists": refusal(admin.create_topics([NewTopic(topic, 2)])),
        "bad name": refusal(admin.create_topics([NewTopic("no spaces", 1)])),
        "no partitions": refusal(admin.create_topics([NewTopic(f"{topic}-0", 0)])),
        "replicas": refusal(admin.create_topics([NewTopic(f"{topic}-3", 1, 3)])),
        "fewer": refusal(admin.create_partitions([NewPartitions(topic, 1)])),
        "unknown": refusal(admin.delete_topics([f"{topic}-none"])),
    }
    assert {name: error.code() for name, error in errors.items()} == {
        "exists": KafkaError.TOPIC_ALREADY_EXISTS,
        "bad name": KafkaError.TOPIC_EXCEPTION,
        "no partitions": KafkaError.INVALID_PARTITIONS,
        "replicas": KafkaError.INVALID_REPLICATION_FACTOR,
        "fewer": KafkaError.INVALID_PARTITIONS,
        "unknown": KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_an_unknown_setting_is_refused_with_the_nearest_name(
    admin: AdminClient, topic: str
) -> None:
    wanted = NewTopic(topic, 1, config={"retention.mss": "1"})
    error = refusal(admin.create_topics([wanted]))
    assert error.code() == KafkaError.INVALID_CONFIG
    assert "'retention.ms'" in error.str()
    assert topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_a_validated_topic_is_not_made(admin: AdminClient, topic: str) -> None:
    only(admin.create_topics([NewTopic(topic, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_settings_are_read_and_changed(admin: AdminClient, topic: str) -> None:
    only(admin.create_topics([NewTopic(topic, 1)]))

    def alter(name: str, value: str, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        only(admin.incremental_alter_configs([resource]))

    assert topic_configs(admin, topic)["cleanup.policy"] == "delete"
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert topic_configs(admin, topic)["cleanup.policy"] == "delete,compact"
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    assert topic_configs(admin, topic)["cleanup.policy"] == "compact"
    alter("cleanup.policy", "compact", AlterConfigOpType.SUBTRACT)
    assert topic_configs(admin, topic)["cleanup.policy"] == ""
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert topic_configs(admin, topic)["cleanup.policy"] == "compact"
    alter("cleanup.policy", "", AlterConfigOpType.SET)
    assert topic_configs(admin, topic)["cleanup.policy"] == ""
    alter("max.message.bytes", "2000", AlterConfigOpType.SET)
    assert topic_configs(admin, topic)["max.message.bytes"] == "2000"
    alter("max.message.bytes", "", AlterConfigOpType.DELETE)
    assert topic_configs(admin, topic)["max.message.bytes"] == "1048588"


def test_the_brokers_settings_are_shown(admin: AdminClient) -> None:
    described = only(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert described["num.partitions"].value == "3"
    assert described["log.flush.interval.ms"].is_default


def test_a_batch_larger_than_the_topic_takes_is_refused(
    admin: AdminClient, servers: str, topic: str
) -> None:
    only(admin.create_topics([NewTopic(topic, 1, config={"max.message.bytes": "1000"})]))
    with pytest.raises(KafkaException) as raised:
        Confluent().produce(servers, topic, [Sent(bytes(2000))])
    assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    Confluent().produce(servers, topic, [Sent(bytes(500))])
    assert len(Confluent().read(servers, topic, [0], 1)) == 1


def test_a_topic_that_stamps_its_own_time_does(
    admin: AdminClient, servers: str, topic: str
) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    only(admin.create_topics([NewTopic(topic, 1, config=config)]))
    records = [Sent(b"%d" % number, timestamp_ms=1) for number in range(3)]
    Confluent().produce(servers, topic, records)
    with confluent_consumer(servers) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        stamps = [message.timestamp() for message in poll_messages(consumer, 3)]
    assert {kind for kind, _ in stamps} == {confluent_kafka.TIMESTAMP_LOG_APPEND_TIME}
    assert all(time_ms > 1_600_000_000_000 for _, time_ms in stamps)


def test_groups_are_listed_described_moved_and_deleted(
    admin: AdminClient, servers: str, topic: str, group: str
) -> None:
    Confluent().produce(servers, topic, [Sent(b"%d" % number) for number in range(10)])
    with confluent_consumer(servers, group, {"enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic])
        last = poll_messages(consumer, 10)[-1]
        consumer.commit(message=last, asynchronous=False)
        described = only(admin.describe_consumer_groups([group]))
        assert described.state == confluent_kafka.ConsumerGroupState.STABLE
        (member,) = described.members
        assert {part.partition for part in member.assignment.topic_partitions} == {0, 1, 2}
        assert refusal(admin.delete_consumer_groups([group])).code() == KafkaError.NON_EMPTY_GROUP
    listed = admin.list_consumer_groups().result(DEADLINE_S)
    assert group in {each.group_id for each in listed.valid}
    committed = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    assert [(part.topic, part.partition, part.offset) for part in committed.topic_partitions] == [
        (topic, 0, 10)
    ]
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 4)])
    only(admin.alter_consumer_group_offsets([moved]))
    with confluent_consumer(servers, group, {"enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic])
        assert poll_messages(consumer, 1)[0].offset() == 4
    only(admin.delete_consumer_groups([group]))
    assert refusal(admin.delete_consumer_groups([group])).code() == KafkaError.GROUP_ID_NOT_FOUND


def test_deleted_records_are_gone_and_the_others_stay(
    admin: AdminClient, servers: str, topic: str
) -> None:
    records = [Sent(b"%d" % number, timestamp_ms=1000 + number) for number in range(10)]
    Confluent().produce(servers, topic, records)
    deleted = only(admin.delete_records([TopicPartition(topic, 0, 7)]))
    assert deleted.low_watermark == 7
    found = Confluent().read(servers, topic, [0], 3)
    assert [each.value for each in found] == [b"7", b"8", b"9"]
    partition = TopicPartition(topic, 0)
    for spec, offset in (
        (OffsetSpec.earliest(), 7),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.for_timestamp(0), 7),
        (OffsetSpec.for_timestamp(1008), 8),
        (OffsetSpec.max_timestamp(), 9),
    ):
        assert only(admin.list_offsets({partition: spec})).offset == offset
    error = refusal(admin.delete_records([TopicPartition(topic, 0, 11)]))
    assert error.code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_times_are_found_behind_deleted_batches(
    admin: AdminClient, servers: str, topic: str
) -> None:
    for number in range(3):
        Confluent().produce(servers, topic, [Sent(b"%d" % number, timestamp_ms=1000)])
    only(admin.delete_records([TopicPartition(topic, 0, 2)]))
    spec = OffsetSpec.for_timestamp(500)
    assert only(admin.list_offsets({TopicPartition(topic, 0): spec})).offset == 2


def test_the_cluster_is_described(admin: AdminClient, servers: str) -> None:
    described = admin.describe_cluster().result(DEADLINE_S)
    assert f"{described.controller.host}:{described.controller.port}" == servers
    assert [node.id for node in described.nodes] == [1]
    assert described.cluster_id == admin.cluster_id(timeout=DEADLINE_S)


def test_an_unknown_topic_is_said_to_be_unknown_where_none_may_be_made(
    servers: str, topic: str
) -> None:
    options = {"allow.auto.create.topics": False, "enable.auto.commit": False}
    with confluent_consumer(servers, options=options) as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART

"""The admin clients of kafka-python and aiokafka: topics, settings, groups, records, cluster."""

from collections.abc import Iterator
from typing import Any

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import TopicPartition as AioTopicPartition
from kafka import admin as kafka_admin
from kafka import errors as kafka_errors

from support.clients import Confluent, Sent, kafka_python_consumer, next_records, run_async


@pytest.fixture
def admin(servers: str) -> Iterator[Any]:
    client = kafka.KafkaAdminClient(bootstrap_servers=servers)
    yield client
    client.close()


def fill(servers: str, topic: str, count: int) -> None:
    Confluent().produce(servers, topic, [Sent(b"%d" % number) for number in range(count)])


def test_kafka_python_makes_describes_extends_and_deletes_topics(admin: Any, topic: str) -> None:
    admin.create_topics([kafka_admin.NewTopic(topic, 2, 1)])
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    admin.create_partitions({topic: kafka_admin.NewPartitions(4)})
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 4
    assert topic in admin.list_topics()
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


def test_kafka_python_hears_kafkas_errors(admin: Any, topic: str) -> None:
    admin.create_topics([kafka_admin.NewTopic(topic, 1, 1)])
    with pytest.raises(kafka_errors.TopicAlreadyExistsError):
        admin.create_topics([kafka_admin.NewTopic(topic, 1, 1)])
    with pytest.raises(kafka_errors.InvalidPartitionsError):
        admin.create_partitions({topic: kafka_admin.NewPartitions(1)})
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        admin.delete_topics([f"{topic}-none"])
    bad = kafka_admin.NewTopic(f"{topic}-2", 1, 1, topic_configs={"retention.mss": "1"})
    with pytest.raises(kafka_errors.InvalidConfigurationError, match=r"'retention\.ms'"):
        admin.create_topics([bad])


def test_kafka_python_reads_and_changes_settings(admin: Any, topic: str) -> None:
    admin.create_topics([kafka_admin.NewTopic(topic, 1, 1)])
    kind = kafka_admin.ConfigResourceType.TOPIC
    admin.alter_configs([kafka_admin.ConfigResource(kind, topic, configs={"retention.ms": "77"})])
    described = admin.describe_configs([kafka_admin.ConfigResource(kind, topic)])
    assert "77" in str(described)


def test_kafka_python_lists_describes_and_deletes_groups(
    admin: Any, servers: str, topic: str, group: str
) -> None:
    fill(servers, topic, 10)
    partition = kafka.TopicPartition(topic, 0)
    with kafka_python_consumer(servers, group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        next_records(consumer, 10)
        consumer.commit()
        assert admin.describe_groups([group])[group]["group_state"] == "Stable"
    assert group in {each["group_id"] for each in admin.list_groups()}
    offsets = admin.list_group_offsets(group)
    assert offsets[group][partition].offset == 10
    admin.delete_groups([group])
    assert group not in {each["group_id"] for each in admin.list_groups()}


def test_kafka_python_deletes_records_and_describes_the_cluster(
    admin: Any, servers: str, topic: str
) -> None:
    fill(servers, topic, 10)
    partition = kafka.TopicPartition(topic, 0)
    admin.delete_records({partition: 6})
    with kafka_python_consumer(servers, None) as consumer:
        assert consumer.beginning_offsets([partition]) == {partition: 6}
    described = admin.describe_cluster()
    assert [f"{node['host']}:{node['port']}" for node in described["brokers"]] == [servers]
    assert topic in str(admin.describe_log_dirs())


def test_aiokafka_manages_topics_groups_and_records(servers: str, topic: str, group: str) -> None:
    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            made = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert [error[1] for error in made.topic_errors] == [0]
            again = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert [error[1] for error in again.topic_errors] == [36]
            await admin.create_partitions({topic: NewPartitions(3)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 3
            await admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "77"})]
            )
            shown = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            assert "'77'" in str(shown)
            fill(servers, topic, 10)
            partition = AioTopicPartition(topic, 0)
            async with AIOKafkaConsumer(
                topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
            ) as consumer:
                for _ in range(10):
                    await consumer.getone()
                await consumer.commit()
                groups = await admin.list_consumer_groups()
                assert group in {each[0] for each in groups}
                assert "Stable" in str(await admin.describe_consumer_groups([group]))
            offsets = await admin.list_consumer_group_offsets(group)
            assert offsets[partition].offset == 10
            deleted = await admin.delete_records({partition: RecordsToDelete(before_offset=4)})
            assert deleted == {partition: 4}
            cluster = await admin.describe_cluster()
            assert [node["node_id"] for node in cluster["brokers"]] == [1]
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    run_async(run())

"""Topics and their settings: create, delete, enlarge, read, change.

A call over several topics gives one outcome per topic, None for success, since a cluster does
what it can and refuses the others.
"""

import enum
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from semel.client.cluster.calls import raise_for, refusal
from semel.client.cluster.cluster import Cluster
from semel.errors import NONE, NotController, RequestError
from semel.types import TopicPartition
from semel.wire.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    incremental_alter_configs,
)

Outcomes = dict[str, RequestError | None]

CLUSTER_DEFAULT = -1
"""As a number of partitions or replicas: what the cluster has set for new topics."""


class ResourceType(enum.IntEnum):
    TOPIC = 2
    BROKER = 4


class ConfigSource(enum.IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool


async def create(
    cluster: Cluster,
    names: Sequence[str],
    *,
    partition_count: int = CLUSTER_DEFAULT,
    replication_factor: int = CLUSTER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> Outcomes:
    request = create_topics.CreateTopicsRequest(
        topics=[
            create_topics.CreatableTopic(
                name=name,
                num_partitions=partition_count,
                replication_factor=replication_factor,
                assignments=[],
                configs=[
                    create_topics.CreatableTopicConfig(key, value)
                    for key, value in (configs or {}).items()
                ],
            )
            for name in names
        ],
        timeout_ms=cluster.timeout_ms,
        validate_only=validate_only,
    )

    async def attempt() -> Outcomes:
        reply = await cluster.call(await cluster.controller_id(), create_topics, request)
        return {
            topic.name: _outcome(topic.error_code, f"topic {topic.name}", topic.error_message)
            for topic in reply.topics
        }

    return await _by_controller(cluster, attempt)


async def delete(cluster: Cluster, names: Sequence[str]) -> Outcomes:
    request = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=cluster.timeout_ms,
    )

    async def attempt() -> Outcomes:
        reply = await cluster.call(await cluster.controller_id(), delete_topics, request)
        return {
            topic.name or "": _outcome(topic.error_code, f"topic {topic.name}", topic.error_message)
            for topic in reply.responses
        }

    return await _by_controller(cluster, attempt)


async def enlarge(cluster: Cluster, partition_counts: Mapping[str, int]) -> Outcomes:
    """Give each topic this many partitions in all."""
    request = create_partitions.CreatePartitionsRequest(
        topics=[
            create_partitions.CreatePartitionsTopic(name, count, None)
            for name, count in partition_counts.items()
        ],
        timeout_ms=cluster.timeout_ms,
    )

    async def attempt() -> Outcomes:
        reply = await cluster.call(await cluster.controller_id(), create_partitions, request)
        return {
            topic.name: _outcome(topic.error_code, f"topic {topic.name}", topic.error_message)
            for topic in reply.results
        }

    return await _by_controller(cluster, attempt)


async def topic_configs(
    cluster: Cluster, names: Collection[str]
) -> dict[str, tuple[ConfigEntry, ...]]:
    """All settings of these topics, whether set for the topic or inherited."""
    request = describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(ResourceType.TOPIC, name, None)
            for name in names
        ]
    )

    async def attempt() -> dict[str, tuple[ConfigEntry, ...]]:
        reply = await cluster.call_any(describe_configs, request)
        configs = {}
        for result in reply.results:
            subject = f"settings of topic {result.resource_name}"
            raise_for(result.error_code, subject, result.error_message)
            configs[result.resource_name] = tuple(
                ConfigEntry(
                    entry.name,
                    entry.value,
                    entry.config_source,
                    entry.read_only,
                    entry.is_sensitive,
                )
                for entry in result.configs
            )
        return configs

    return await cluster.retry(attempt)


async def sizes_of(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Bytes of these partitions where they are led; without those that a broker does not tell."""

    async def attempt() -> dict[TopicPartition, int]:
        sizes: dict[TopicPartition, int] = {}
        by_leader: dict[int, dict[str, list[int]]] = {}
        for (topic, index), leader_id in (await cluster.leaders_of(partitions)).items():
            by_leader.setdefault(leader_id, {}).setdefault(topic, []).append(index)
        for leader_id, indexes in by_leader.items():
            wanted = [
                describe_log_dirs.DescribableLogDirTopic(topic, its_indexes)
                for topic, its_indexes in indexes.items()
            ]
            request = describe_log_dirs.DescribeLogDirsRequest(wanted)
            reply = await cluster.call(leader_id, describe_log_dirs, request)
            for directory in reply.results:
                for described in directory.topics:
                    for each in described.partitions:
                        # One that is being moved is counted when it has come.
                        if not each.is_future_key:
                            partition = TopicPartition(described.name, each.partition_index)
                            sizes[partition] = each.partition_size
        return sizes

    return await cluster.retry(attempt) if partitions else {}


class ConfigOperation(enum.IntEnum):
    SET = 0
    DELETE = 1


async def alter_topic_configs(
    cluster: Cluster, name: str, changes: Mapping[str, str | None]
) -> None:
    """Set these settings of a topic; None puts one back to what the cluster has."""
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(
                        key,
                        ConfigOperation.DELETE if value is None else ConfigOperation.SET,
                        value,
                    )
                    for key, value in changes.items()
                ],
            )
        ]
    )

    async def attempt() -> None:
        reply = await cluster.call(
            await cluster.controller_id(), incremental_alter_configs, request
        )
        for result in reply.responses:
            raise_for(result.error_code, f"topic {name}", result.error_message)

    await cluster.retry(attempt)


async def _by_controller(cluster: Cluster, attempt: Callable[[], Awaitable[Outcomes]]) -> Outcomes:
    """Ask the controller, and its successor if it is not the controller any more."""

    async def accepted() -> Outcomes:
        outcomes = await attempt()
        for outcome in outcomes.values():
            if isinstance(outcome, NotController):
                raise outcome
        return outcomes

    return await cluster.retry(accepted)


def _outcome(code: int, subject: str, message: str | None) -> RequestError | None:
    return None if code == NONE else refusal(code, subject, message)

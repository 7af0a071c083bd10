"""What a user names, found in the cluster, or refused with the nearest name that exists."""

from collections.abc import Collection
from typing import Literal

from semel.client.admin.configs import ALL_BROKERS, ResourceType
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicMetadata
from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.spelling import hint_at
from semel.types import TopicPartition

ConfigKind = Literal["broker", "topic", "group"]
"""Of what settings are."""

Partitions = str | TopicPartition | Collection[str | TopicPartition]
"""Partitions; the name of a topic stands for all of its partitions."""


async def find_topics(cluster: Cluster, names: Collection[str]) -> dict[str, TopicMetadata]:
    try:
        return await cluster.topics(names)
    except UnknownTopicOrPartition as error:
        raise await with_nearest(cluster, names, error) from None


async def with_nearest(
    cluster: Cluster, names: Collection[str], error: UnknownTopicOrPartition
) -> UnknownTopicOrPartition:
    """This refusal of a name that is not a topic, with the one that may have been meant."""
    topics = (await cluster.describe()).topics
    known = [name for name, topic in topics.items() if not topic.is_internal]
    missing = next((name for name in names if name not in topics), "")
    return UnknownTopicOrPartition(f"{error}{hint_at(missing, known)}")


async def find_partitions(cluster: Cluster, partitions: Partitions) -> list[TopicPartition]:
    wanted = [partitions] if isinstance(partitions, str | TopicPartition) else list(partitions)
    topics = await find_topics(
        cluster, {each.topic if isinstance(each, TopicPartition) else each for each in wanted}
    )
    found: dict[TopicPartition, None] = {}
    for each in wanted:
        if isinstance(each, TopicPartition):
            check_partition(topics[each.topic], each.partition)
            found[each] = None
        else:
            found.update(dict.fromkeys(topics[each].topic_partitions))
    return list(found)


def check_partition(topic: TopicMetadata, number: int) -> None:
    if not 0 <= number < len(topic.partitions):
        raise UnknownTopicOrPartition(
            f"topic {topic.name} has no partition {number}: it has {len(topic.partitions)}"
        )


async def find_resource(cluster: Cluster, kind: ConfigKind, name: str) -> tuple[ResourceType, str]:
    """What requests call it that has settings; a broker is named by its id, or all by `all`."""
    if kind == "topic":
        await find_topics(cluster, [name])
        return ResourceType.TOPIC, name
    if kind == "group":
        return ResourceType.GROUP, name
    if kind != "broker":
        raise ConfigError(f"{kind!r} has no settings: there are those of broker, topic and group")
    if name == "all":
        return ResourceType.BROKER, ALL_BROKERS
    known = [str(broker_id) for broker_id in sorted((await cluster.describe(())).brokers)]
    if name not in known:
        raise ConfigError(f"there is no broker {name!r}: there are {', '.join(known)}, and `all`")
    return ResourceType.BROKER, name

"""Topics that a command was told, refused with the nearest name that exists if they do not."""

from collections.abc import Collection

from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicMetadata
from semel.errors import UnknownTopicOrPartition
from semel.spelling import hint_at


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

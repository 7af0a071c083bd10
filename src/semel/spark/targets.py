"""The topics that a sink may write to, with one count of partitions for a whole micro-batch."""

from collections.abc import Collection

from semel.client.cluster.blocking import ClientOptions, shared
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, InvalidTopic, UnknownTopicOrPartition
from semel.spark.options import check_topic
from semel.spark.rows import Destination
from semel.spark.sink_settings import SinkSettings
from semel.topic_names import check_name


def destination_of(settings: SinkSettings, topics: Collection[str] | None = None) -> Destination:
    """`topics` are all that the rows name, where that is known before they are looked at."""
    for each in topics or ():
        check_topic(each, "a topic that the function names")
    connected = shared(settings.client)
    counts = connected.run(partition_counts(connected.cluster, settings, topics))
    topic = settings.topic if topics is None else None
    return Destination(
        topic, counts, settings.compression, settings.batch_size_max, settings.key_hash
    )


def partition_count(client: ClientOptions, topic: str) -> int:
    """Of a topic that a row has named, created if the cluster does so on demand."""
    connected = shared(client)
    try:
        check_name(topic)
        found = connected.run(connected.cluster.topic_to_write(topic))
    except (UnknownTopicOrPartition, InvalidTopic) as error:
        raise ConfigError(f"column topic is {topic!r} in a row: {error}") from error
    if found.is_internal:
        raise ConfigError(f"column topic is {topic!r} in a row: that one is the cluster's own")
    return len(found.partitions)


async def partition_counts(
    cluster: Cluster, settings: SinkSettings, topics: Collection[str] | None
) -> dict[str, int]:
    """Of the topics that are named, created if need be; of all where only a column names them."""
    named = {settings.topic} if topics is None else set(topics)
    if settings.checks_marker:
        named.add(settings.marker_partition.topic)
    # A query lives through the restart of a broker: as long as one request may take.
    timeout_ms = cluster.timeout_ms
    found = {
        name: await cluster.topic_to_write(name, timeout_ms) for name in named if name is not None
    }
    if settings.topic is None and topics is None:
        found |= (await cluster.retry(cluster.describe)).topics
    return {name: len(topic.partitions) for name, topic in found.items() if not topic.is_internal}

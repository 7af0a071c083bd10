"""The topics that a sink may write to, with one count of partitions for a whole micro-batch."""

from semel.client.blocking import shared
from semel.client.cluster import Cluster
from semel.spark.rows import Place
from semel.spark.sink_settings import SinkSettings


def placed(settings: SinkSettings) -> Place:
    connected = shared(settings.client)
    counts = connected.run(partition_counts(connected.cluster, settings))
    return Place(settings.topic, counts, settings.compression, settings.batch_size_max)


async def partition_counts(cluster: Cluster, settings: SinkSettings) -> dict[str, int]:
    """Of the topic that is named, created if need be; of all topics where a column names them."""
    named = [topic for topic in (settings.topic, settings.marker_topic) if topic is not None]
    topics = {name: await cluster.topic_to_write(name) for name in dict.fromkeys(named)}
    if settings.topic is None:
        topics |= (await cluster.describe(None)).topics
    return {name: len(topic.partitions) for name, topic in topics.items() if not topic.is_internal}

"""`semel cluster info`: which cluster answers, its brokers, and how much it holds."""

from semel.cli.arguments import DEFAULT_TARGET, Target
from semel.cli.broker import say_brokers
from semel.cli.output import Cell, say, say_fields, say_json
from semel.client.admin.asynchronous import ClusterDescription, describe_cluster
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import ClusterMetadata


def info(*, target: Target = DEFAULT_TARGET) -> int:
    """Show which cluster answers, its brokers, and how many topics and partitions it has."""

    async def work(cluster: Cluster) -> tuple[ClusterDescription, ClusterMetadata]:
        return await describe_cluster(cluster), await cluster.describe()

    found, everything = target.run(work)
    topics = [topic for topic in everything.topics.values() if not topic.is_internal]
    counts: dict[str, Cell] = {
        "cluster": found.cluster_id,
        "controller": found.controller_id,
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
    }
    if target.as_json:
        brokers = [
            {"broker": broker_id, "host": address.host, "port": address.port}
            for broker_id, address in found.brokers.items()
        ]
        features = {"transaction_version": found.transaction_version}
        say_json({**counts, **features, "brokers": brokers})
    else:
        say_fields({**counts, "transactions": f"version {found.transaction_version}"})
        say("")
        say_brokers(found)
    return 0

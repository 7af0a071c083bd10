"""`semel txn hanging`: what keeps readers of committed records waiting, and nobody will end."""

from typing import Annotated

from cyclopts import Parameter

from semel.cli.find_topics import find_topics
from semel.cli.moment import moment_in_words
from semel.cli.output import say_json, say_table
from semel.cli.target import DEFAULT_TARGET, Target
from semel.client.admin.hanging import Hanging, find_hanging
from semel.client.cluster.cluster import Cluster
from semel.errors import ConfigError, UnknownTopicOrPartition
from semel.world import SystemClock


def hanging(
    *topics: str,
    partition: Annotated[
        int | None, Parameter(name=["-p", "--partition"], help="Only this one of the topics.")
    ] = None,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Find transactions that are open in TOPICS, or anywhere, and that no coordinator will end."""
    if partition is not None and not topics:
        raise ConfigError("--partition is one of a topic: name the topic")

    async def work(cluster: Cluster) -> list[Hanging]:
        described = (
            await find_topics(cluster, topics) if topics else (await cluster.describe()).topics
        )
        partitions = [
            place
            for topic in described.values()
            for place in topic.places
            if partition is None or place.partition == partition
        ]
        if topics and not partitions:
            raise UnknownTopicOrPartition(f"there is no partition {partition} in these topics")
        return await find_hanging(cluster, partitions, SystemClock().wall_ms())

    found = target.run(work)
    if target.as_json:
        say_json([_as_json(one) for one in found])
    else:
        rows = [
            (
                *one.producer.partition,
                one.producer.producer_id,
                one.producer.producer_epoch,
                one.producer.first_offset,
                moment_in_words(one.producer.active_at_ms),
                one.transactional_id,
                one.reason.value,
            )
            for one in found
        ]
        columns = "TOPIC PARTITION PRODUCER EPOCH FIRST-OFFSET LAST-WRITE TRANSACTIONAL-ID REASON"
        say_table(columns.split(), rows)
    return 0


def _as_json(one: Hanging) -> dict[str, object]:
    producer = one.producer
    return {
        "topic": producer.partition.topic,
        "partition": producer.partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "first_offset": producer.first_offset,
        "active_at_ms": producer.active_at_ms,
        "transactional_id": one.transactional_id,
        "reason": one.reason.name.lower(),
    }

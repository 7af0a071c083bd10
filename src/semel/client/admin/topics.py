"""Topics: create, delete, enlarge, delete their oldest records, tell their sizes.

A call over several topics gives one outcome per topic, None for success, since a cluster does
what it can and refuses the others.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial

from semel.client.cluster.calls import refusal
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicMetadata
from semel.errors import (
    NONE,
    ConfigError,
    NotController,
    OffsetOutOfRange,
    PolicyViolation,
    RequestError,
    TopicAlreadyExists,
)
from semel.types import TopicPartition
from semel.wire.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_log_dirs,
)

Outcomes = dict[str, RequestError | None]

CLUSTER_DEFAULT = -1
"""As a number of partitions or replicas: what the cluster has set for new topics."""

END_OF_LOG = -1
"""As the offset that records are deleted before: the high watermark."""


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


async def create_all_or_none(
    cluster: Cluster,
    names: Sequence[str],
    *,
    partition_count: int = CLUSTER_DEFAULT,
    replication_factor: int = CLUSTER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    exist_ok: bool = False,
) -> Outcomes:
    """A cluster would make what it can, and leave the rest to who has mistyped one of the names."""
    make = partial(
        create,
        cluster,
        partition_count=partition_count,
        replication_factor=replication_factor,
        configs=configs,
    )
    wanted = list(dict.fromkeys(names))
    if len(wanted) == 1:
        return await make(wanted)
    checked = await make(wanted, validate_only=True)
    there = {each: why for each, why in checked.items() if isinstance(why, TopicAlreadyExists)}
    passed_over = there if exist_ok else {}
    refused: Outcomes = {
        each: why for each, why in checked.items() if why and each not in passed_over
    }
    if refused:
        return refused
    made = (
        await make([each for each in wanted if each not in there])
        if len(there) < len(wanted)
        else {}
    )
    return {each: there[each] if each in there else made[each] for each in wanted}


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


async def delete_records_before(
    cluster: Cluster, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | RequestError]:
    """Delete what lies below these offsets; END_OF_LOG is all that can be read.

    Gives where each partition begins then, or why it was refused.
    """
    outcomes: dict[TopicPartition, int | RequestError] = {}
    passing: dict[TopicPartition, RequestError] = {}

    async def attempt() -> None:
        by_leader: dict[int, dict[str, list[delete_records.DeleteRecordsPartition]]] = {}
        left = [partition for partition in offsets if partition not in outcomes]
        for partition, leader_id in (await cluster.leaders_of(left)).items():
            wanted = delete_records.DeleteRecordsPartition(partition.partition, offsets[partition])
            by_leader.setdefault(leader_id, {}).setdefault(partition.topic, []).append(wanted)
        passing.clear()
        for leader_id, its_topics in by_leader.items():
            request = delete_records.DeleteRecordsRequest(
                topics=[
                    delete_records.DeleteRecordsTopic(topic, wanted)
                    for topic, wanted in its_topics.items()
                ],
                timeout_ms=cluster.timeout_ms,
            )
            reply = await cluster.call(leader_id, delete_records, request)
            for topic in reply.topics:
                for result in topic.partitions:
                    partition = TopicPartition(topic.name, result.partition_index)
                    error = _outcome(result.error_code, str(partition), _reason(result.error_code))
                    if error is not None and error.retriable:
                        passing[partition] = error
                    else:
                        outcomes[partition] = error or result.low_watermark
        for refused in passing.values():
            raise refused

    try:
        await cluster.retry(attempt)
    except RequestError:
        # What was done meanwhile has to be told as well.
        if not outcomes:
            raise
    return outcomes | passing


def _reason(code: int) -> str | None:
    """Replies to DeleteRecords have no words of their own."""
    if code == PolicyViolation.code:
        return "its topic is compacted, and keeps the newest record of each key"
    if code == OffsetOutOfRange.code:
        return "the offset is not between 0 and the end of the log"
    return None


def matching(
    topics: Mapping[str, TopicMetadata],
    pattern: str | re.Pattern[str] | None = None,
    *,
    internal: bool = False,
    whole: bool = True,
) -> list[str]:
    """The names of those whose name, or its beginning, matches a regular expression, in order."""
    try:
        expression = None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{pattern!r} is not a regular expression: {error}") from None
    return sorted(
        name
        for name, topic in topics.items()
        if (internal or not topic.is_internal)
        and (
            expression is None
            or (expression.fullmatch(name) if whole else expression.match(name)) is not None
        )
    )


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

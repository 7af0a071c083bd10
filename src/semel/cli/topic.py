"""`semel topic`: create, list, describe, delete and enlarge topics, and change their settings."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cyclopts import App, Parameter

from semel.cli.arguments import (
    DEFAULT_TARGET,
    Target,
    chosen_topics,
    parse_settings,
    split_names,
)
from semel.cli.delete_records import delete_records
from semel.cli.numbers import whole_number
from semel.cli.output import (
    note,
    say,
    say_configs,
    say_each,
    say_fields,
    say_heading,
    say_json,
    say_outcomes,
    say_table,
)
from semel.client.admin import configs, topics
from semel.client.admin.configs import ConfigEntry, ConfigSource, ResourceType
from semel.client.admin.finding import find_topics, with_nearest
from semel.client.admin.topics import CLUSTER_DEFAULT
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicMetadata
from semel.client.cluster.offsets import beginnings_of, ends_of
from semel.errors import ConfigError, TopicAlreadyExists, UnknownTopicOrPartition
from semel.types import TopicPartition

app = App(name="topic", help="Create, list, describe, change, enlarge and delete topics.")

app.command(delete_records, name=["delete-records", "trim"])

_MATTERING = frozenset({"cleanup.policy", "retention.ms", "retention.bytes", "max.message.bytes"})
_MATTERING_IF_COMPACTED = frozenset(
    {
        "delete.retention.ms",
        "max.compaction.lag.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
    }
)
"""Settings that are shown wherever their values come from."""

_Settings = Annotated[
    tuple[str, ...],
    Parameter(name=["-c", "--config"], help="A setting as KEY=VALUE; repeatable.", negative=""),
]


@app.command
def create(
    name: str,
    /,
    *names: str,
    partitions: Annotated[
        int,
        Parameter(
            converter=whole_number, name=["-p", "--partitions"], help="-1: as the cluster has set."
        ),
    ] = CLUSTER_DEFAULT,
    replicas: Annotated[
        int,
        Parameter(
            converter=whole_number, name=["-r", "--replicas"], help="-1: as the cluster has set."
        ),
    ] = CLUSTER_DEFAULT,
    config: _Settings = (),
    if_not_exists: Annotated[
        bool, Parameter(negative="", help="It is no failure if the topic is there already.")
    ] = False,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Create topics: all of them, or none if one is refused."""
    settings = parse_settings(config)

    async def work(cluster: Cluster) -> topics.Outcomes:
        return await topics.create_all_or_none(
            cluster,
            [name, *names],
            partition_count=partitions,
            replication_factor=replicas,
            configs=settings,
            exist_ok=if_not_exists,
        )

    outcomes = target.run(work)
    there = [each for each, why in outcomes.items() if isinstance(why, TopicAlreadyExists)]
    if if_not_exists and not target.as_json:
        for each in there:
            say(f"topic {each} exists already")
            del outcomes[each]
    elif if_not_exists:
        outcomes |= dict.fromkeys(there)
    code = say_outcomes("topic", outcomes, "created", as_json=target.as_json)
    if code and names and not target.as_json:
        note("no topic was created")
    return code


@app.command
def delete(name: str, /, *names: str, target: Target = DEFAULT_TARGET) -> int:
    """Delete topics and all their records.

    A name that begins with ^ is a regular expression: '^test-.*' deletes all that match.
    """
    named, patterns = split_names([name, *names])

    async def work(cluster: Cluster) -> topics.Outcomes:
        matching = await chosen_topics(cluster, patterns)
        outcomes = await topics.delete(cluster, list(dict.fromkeys([*named, *matching])))
        for topic, refusal in outcomes.items():
            if isinstance(refusal, UnknownTopicOrPartition):
                outcomes[topic] = await with_nearest(cluster, [topic], refusal)
        return outcomes

    return say_outcomes("topic", target.run(work), "deleted", as_json=target.as_json)


@app.command(name="add-partitions")
def add_partitions(
    name: str,
    /,
    *names: str,
    more: Annotated[
        int | None,
        Parameter(
            converter=whole_number, name=["-n", "--num"], help="How many to add to each topic."
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            name=["-p", "--partitions"],
            help="How many each shall have in all.",
        ),
    ] = None,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Add partitions to topics, by --num or up to --partitions."""
    if (more is None) == (partitions is None):
        raise ConfigError("say either how many to add (--num) or how many in all (--partitions)")

    async def work(cluster: Cluster) -> topics.Outcomes:
        found = await find_topics(cluster, [name, *names])
        return await topics.enlarge(
            cluster,
            {
                topic.name: len(topic.partitions) + more if more is not None else partitions or 0
                for topic in found.values()
            },
        )

    return say_outcomes("topic", target.run(work), "enlarged", as_json=target.as_json)


@app.command(name="alter-config")
def alter_config(
    name: str,
    /,
    *,
    config: _Settings = (),
    unset: Annotated[
        tuple[str, ...],
        Parameter(
            name=["-d", "--delete"],
            help="A setting to put back to the cluster's; repeatable.",
            negative="",
        ),
    ] = (),
    target: Target = DEFAULT_TARGET,
) -> int:
    """Change settings of a topic."""
    given = parse_settings(config)
    if both := given.keys() & set(unset):
        raise ConfigError(f"{min(both)} is to be set (--config) and put back (--delete)")
    changes: dict[str, str | None] = {**given, **dict.fromkeys(unset)}
    if not changes:
        raise ConfigError("say what to set (--config) or to put back (--delete)")

    async def work(cluster: Cluster) -> None:
        await find_topics(cluster, [name])
        await configs.alter(cluster, ResourceType.TOPIC, name, changes)

    target.run(work)
    return say_outcomes("topic", {name: None}, "changed", as_json=target.as_json)


@app.command(name="list")
def list_topics(
    *names: str,
    internal: Annotated[
        bool, Parameter(name=["-i", "--internal"], negative="", help="Internal ones too.")
    ] = False,
    target: Target = DEFAULT_TARGET,
) -> int:
    """List topics: all, or those named; a name that begins with ^ is a regular expression."""

    async def work(cluster: Cluster) -> Mapping[str, TopicMetadata]:
        return await chosen_topics(cluster, names) if names else (await cluster.describe()).topics

    found = target.run(work)
    listed = sorted(topic for topic in found.values() if internal or names or not topic.is_internal)
    rows = [(topic.name, len(topic.partitions), _replica_count(topic)) for topic in listed]
    if target.as_json:
        say_json([dict(zip(("name", "partitions", "replicas"), row, strict=True)) for row in rows])
    else:
        say_table(("NAME", "PARTITIONS", "REPLICAS"), rows)
    return 0


@app.command
def describe(
    name: str,
    /,
    *names: str,
    every: Annotated[
        bool, Parameter(name=["-a", "--all"], negative="", help="Every setting that there is.")
    ] = False,
    target: Target = DEFAULT_TARGET,
) -> int:
    """Show topics: their partitions with offsets and bytes, and their settings.

    Shown are the settings that decide what is kept, and those that were set for the topic or its
    brokers, each with where its value comes from, in Kafka's words.
    """

    async def work(cluster: Cluster) -> list[_Described]:
        found = await chosen_topics(cluster, [name, *names])
        described = await configs.describe(cluster, ResourceType.TOPIC, found.keys())
        partitions = [partition for topic in found.values() for partition in topic.topic_partitions]
        starts, ends = await beginnings_of(cluster, partitions), await ends_of(cluster, partitions)
        sizes = await topics.sizes_of(cluster, partitions)
        return [
            _Described(topic, _shown(described[topic.name], every=every), starts, ends, sizes)
            for topic in found.values()
        ]

    return say_each(target.run(work), _say_described, _as_json, as_json=target.as_json)


class _Described(NamedTuple):
    topic: TopicMetadata
    configs: list[ConfigEntry]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]

    def size(self) -> int | None:
        """Of all its partitions; None if that of one is not known."""
        sizes = [self.sizes.get(partition) for partition in self.topic.topic_partitions]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def rows(
        self,
    ) -> list[tuple[int, int, int, tuple[int, ...], tuple[int, ...], int, int, int | None]]:
        return [
            (
                one.partition,
                one.leader_id,
                one.leader_epoch,
                one.replica_ids,
                one.in_sync_replica_ids,
                self.starts[partition],
                self.ends[partition],
                self.sizes.get(partition),
            )
            for partition, one in zip(
                self.topic.topic_partitions, self.topic.partitions, strict=True
            )
        ]


def _shown(entries: tuple[ConfigEntry, ...], *, every: bool) -> list[ConfigEntry]:
    policies = next((each.value or "" for each in entries if each.name == "cleanup.policy"), "")
    mattering = _MATTERING
    if "compact" in policies.split(","):
        mattering |= _MATTERING_IF_COMPACTED
    return sorted(
        entry
        for entry in entries
        if every or entry.name in mattering or entry.source != ConfigSource.DEFAULT_CONFIG
    )


def _say_described(one: _Described) -> None:
    topic = one.topic
    say_heading(topic.name)
    say_fields(
        {
            "partitions": len(topic.partitions),
            "replicas": _replica_count(topic),
            "internal": "yes" if topic.is_internal else "no",
            "bytes": one.size(),
        }
    )
    say("")
    say_configs(one.configs)
    say("")
    columns = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN-SYNC", "START", "END", "BYTES")
    say_table(columns, one.rows())


def _as_json(one: _Described) -> dict[str, object]:
    names = ("partition", "leader", "epoch", "replicas", "in_sync", "start", "end", "bytes")
    return {
        "name": one.topic.name,
        "internal": one.topic.is_internal,
        "replicas": _replica_count(one.topic),
        "bytes": one.size(),
        "configs": {entry.name: entry.value for entry in one.configs},
        "config_sources": {entry.name: entry.source.name for entry in one.configs},
        "partitions": [dict(zip(names, row, strict=True)) for row in one.rows()],
    }


def _replica_count(topic: TopicMetadata) -> int:
    return max((len(partition.replica_ids) for partition in topic.partitions), default=0)

"""`AsyncAdmin`: what a cluster holds, seen and changed, on the caller's own asyncio loop."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self, Unpack

from semel.access.rules import RuleFilter
from semel.client.admin import acls, configs, groups, topics, transactions
from semel.client.admin.acls import Acl, acl_of_rule, filter_of, rule_of_acl
from semel.client.admin.configs import ConfigEntry
from semel.client.admin.finding import ConfigKind, Partitions, find_partitions, find_resource
from semel.client.admin.finding import find_topics as find
from semel.client.admin.groups import GroupDescription, GroupListing
from semel.client.admin.hanging import Hanging, find_hanging
from semel.client.admin.lag import PartitionLag, lags
from semel.client.admin.settings import AdminOptions, Setting, as_text, check, raise_refused
from semel.client.admin.topics import CLUSTER_DEFAULT
from semel.client.admin.transactions import TransactionDescription, TransactionListing
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import TopicMetadata
from semel.client.cluster.offsets import (
    as_committable,
    as_offsets,
    as_time_ms,
    beginnings_of,
    ends_of,
    offsets_at_or_end,
)
from semel.client.connecting.address import Address, parse_bootstrap_servers
from semel.client.consuming.settings import parse_isolation
from semel.client.options import check_numbers
from semel.errors import (
    ConfigError,
    GroupIdNotFound,
    NotInOrder,
    RequestError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from semel.types import TopicPartition
from semel.world import SystemClock

Names = str | Collection[str]
_NUMBERS: Mapping[str, object] = dict.fromkeys(("partitions", "replicas", "total"), int)


class ClusterDescription(NamedTuple):
    cluster_id: str | None
    controller_id: int
    """Of the broker that decides about topics."""
    brokers: Mapping[int, Address]
    """By their ids, where they listen."""
    transaction_version: int
    """2 and more give each transaction an epoch of its own (KIP-890)."""


async def describe_cluster(cluster: Cluster) -> ClusterDescription:
    described = await cluster.retry(lambda: cluster.describe(()))
    return ClusterDescription(
        described.cluster_id,
        described.controller_id,
        dict(sorted(described.brokers.items())),
        await cluster.transaction_version(),
    )


class AsyncAdmin:
    """Sees and changes topics, settings, groups, offsets and transactions of any cluster.

    >>> async with AsyncAdmin("127.0.0.1:9092") as admin:
    ...     await admin.create_topics("orders", partitions=6)
    ...     print(await admin.end_offsets("orders"))

    Without servers `SEMEL_BOOTSTRAP_SERVERS` names them. Calls that take several names do what they
    can, and raise the first refusal with the others as its notes.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        self._options = check(options)
        self._addresses = parse_bootstrap_servers(bootstrap_servers)
        self._maybe_cluster: Cluster | None = None
        self._is_closed = False

    @property
    def _cluster(self) -> Cluster:
        if self._is_closed:
            raise NotInOrder("the admin is closed")
        if self._maybe_cluster is None:
            self._maybe_cluster = Cluster(self._addresses, **self._options)
        return self._maybe_cluster

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of all connections."""
        self._is_closed = True
        cluster, self._maybe_cluster = self._maybe_cluster, None
        if cluster is not None:
            await cluster.__aexit__(None, None, None)

    # The cluster

    async def describe_cluster(self) -> ClusterDescription:
        return await describe_cluster(self._cluster)

    # Topics

    async def create_topics(
        self,
        names: Names,
        *,
        partitions: int = CLUSTER_DEFAULT,
        replicas: int = CLUSTER_DEFAULT,
        configs: Mapping[str, Setting] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Create topics that are alike; -1 is what the cluster has set for new ones.

        None is made if one of them is refused.
        """
        check_numbers({"partitions": partitions, "replicas": replicas}, _NUMBERS)
        if not isinstance(configs, Mapping | None):
            raise ConfigError(f"configs is {configs!r:.100}: it has to be a dictionary of settings")
        listed = _listed(names)
        for name in listed:
            if listed.count(name) > 1:
                raise ConfigError(f"topic {name} is named twice: name it once")
        outcomes = await topics.create_all_or_none(
            self._cluster,
            listed,
            partition_count=partitions,
            replication_factor=replicas,
            configs={name: as_text(value) for name, value in (configs or {}).items()},
            exist_ok=exist_ok,
        )
        raise_refused(outcomes, *([TopicAlreadyExists] if exist_ok else []))

    async def delete_topics(self, names: Names, *, missing_ok: bool = False) -> None:
        """Delete topics with all their records, for good."""
        outcomes = await topics.delete(self._cluster, _listed(names))
        raise_refused(outcomes, *([UnknownTopicOrPartition] if missing_ok else []))

    async def create_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions in all."""
        check_numbers({"total": total}, _NUMBERS)
        raise_refused(await topics.enlarge(self._cluster, {topic: total}))

    async def list_topics(
        self, pattern: str | re.Pattern[str] | None = None, *, internal: bool = False
    ) -> list[str]:
        """The names of all topics, or of those whose whole name matches a regular expression."""
        found = (await self._cluster.describe()).topics
        return topics.matching(found, pattern, internal=internal)

    async def describe_topics(self, names: Names | None = None) -> dict[str, TopicMetadata]:
        """The partitions of these topics, or of all: who leads them, and who has copies."""
        if names is None:
            return dict((await self._cluster.describe()).topics)
        return await find(self._cluster, _listed(names))

    async def sizes(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """The bytes of these partitions; a name stands for all partitions of a topic."""
        return await topics.sizes_of(
            self._cluster, await find_partitions(self._cluster, partitions)
        )

    # Offsets and records

    async def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """The first offset of these partitions; a name stands for all partitions of a topic."""
        return await beginnings_of(self._cluster, await find_partitions(self._cluster, partitions))

    async def end_offsets(
        self, partitions: Partitions, *, isolation: str = "read_committed"
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record that may be read."""
        level = parse_isolation(isolation)
        return await ends_of(self._cluster, await find_partitions(self._cluster, partitions), level)

    async def offsets_at(
        self, partitions: Partitions, time: int | datetime
    ) -> dict[TopicPartition, int]:
        """The offset of the first record of this time or later, or the end if there is none.

        The time is a datetime, or in milliseconds since 1970.
        """
        time_ms = as_time_ms(time)
        found = await find_partitions(self._cluster, partitions)
        return await offsets_at_or_end(self._cluster, found, time_ms)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Delete what lies below these offsets, for good; where each partition begins then."""
        offsets = as_offsets(before)
        await find_partitions(self._cluster, list(offsets))
        outcomes = await topics.delete_records_before(self._cluster, offsets)
        raise_refused(
            {
                str(partition): outcome if isinstance(outcome, RequestError) else None
                for partition, outcome in outcomes.items()
            }
        )
        return {
            partition: outcome
            for partition, outcome in outcomes.items()
            if not isinstance(outcome, RequestError)
        }

    # Settings

    async def describe_configs(self, kind: ConfigKind, name: str | int) -> dict[str, ConfigEntry]:
        """All settings of a topic, a group or a broker, by their names; `all` is all brokers."""
        resource, called = await find_resource(self._cluster, kind, str(name))
        found = await configs.describe(self._cluster, resource, [called])
        return {entry.name: entry for entry in sorted(found[called])}

    async def alter_configs(
        self, kind: ConfigKind, name: str | int, changes: Mapping[str, Setting | None]
    ) -> None:
        """Change these settings, and no others; None takes one back to what is inherited."""
        if not changes:
            raise ConfigError("alter_configs has nothing to change")
        resource, called = await find_resource(self._cluster, kind, str(name))
        texts = {
            setting: None if value is None else as_text(value) for setting, value in changes.items()
        }
        await configs.alter(self._cluster, resource, called, texts)

    # Groups

    async def list_groups(self) -> list[GroupListing]:
        return await groups.list_all(self._cluster)

    async def describe_group(self, group: str) -> GroupDescription:
        """The state of a group, and its members with their partitions."""
        described = await groups.describe(self._cluster, group)
        if described.state == groups.DEAD and not await self.committed_offsets(group):
            raise GroupIdNotFound(f"group {group} does not exist")
        return described

    async def delete_groups(self, names: Names, *, missing_ok: bool = False) -> None:
        """Delete groups without members, and their offsets."""
        outcomes = await groups.delete(self._cluster, _listed(names))
        raise_refused(outcomes, *([GroupIdNotFound] if missing_ok else []))

    async def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Every offset that the group has committed."""
        return await groups.committed_offsets(self._cluster, group)

    async def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets for a group that has no members at the moment."""
        named = as_committable(offsets)
        if named:
            await find_partitions(self._cluster, list(named))
            await groups.commit_offsets(self._cluster, group, named)

    async def delete_offsets(self, group: str, partitions: Partitions) -> None:
        """Let the group forget what it has committed in topics that it does not read any more."""
        found = await find_partitions(self._cluster, partitions)
        await groups.delete_offsets(self._cluster, group, found)

    async def lag(
        self, group: str, *, isolation: str = "read_committed"
    ) -> dict[TopicPartition, PartitionLag]:
        """How far behind the group is: in offsets, and since when its next record waits."""
        committed = await self.committed_offsets(group)
        found = await lags(self._cluster, committed, parse_isolation(isolation))
        return {TopicPartition(each.topic, each.partition): each for each in found}

    # Transactions

    async def list_transactions(self, *, only_open: bool = False) -> list[TransactionListing]:
        """The transactional ids that the cluster knows, with their states."""
        states = transactions.OPEN_STATES if only_open else ()
        return await transactions.list_all(self._cluster, states=states)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Its state, its producer, and the partitions of what it has open."""
        return await transactions.describe(self._cluster, transactional_id)

    async def abort_transaction(self, transactional_id: str) -> TransactionDescription:
        """Abort what this id has open, and shut its producer out; what it was."""
        return await transactions.abort(self._cluster, transactional_id)

    async def hanging_transactions(self, partitions: Partitions | None = None) -> list[Hanging]:
        """Those that are open in these partitions, or anywhere, and that nobody is going to end."""
        if partitions is None:
            described = (await self._cluster.describe()).topics.values()
            found = [each for topic in described for each in topic.topic_partitions]
        else:
            found = await find_partitions(self._cluster, partitions)
        return await find_hanging(self._cluster, found, SystemClock().wall_ms())

    # Who may do what

    async def list_acls(
        self,
        resource_type: str | None = None,
        name: str | None = None,
        principal: str | None = None,
    ) -> list[Acl]:
        """All rules, or those that apply to a name, of prefixes and of `*` too."""
        rules = await acls.describe(self._cluster, filter_of(resource_type, name, principal))
        return [acl_of_rule(rule) for rule in rules]

    async def create_acls(self, rules: Sequence[Acl]) -> None:
        """Let these rules be there, perhaps beside others."""
        outcomes = await acls.create(self._cluster, [rule_of_acl(each) for each in rules])
        raise_refused({str(rule): error for rule, error in outcomes.items()})

    async def delete_acls(self, rules: Sequence[Acl]) -> list[Acl]:
        """Take these rules back; gives those that were there."""
        wanted = []
        for rule in map(rule_of_acl, rules):
            kind, name, pattern, principal, host, operation, permission = rule
            wanted.append(
                RuleFilter(kind, name, pattern, str(principal), host, operation, permission)
            )
        return [acl_of_rule(rule) for rule in await acls.delete(self._cluster, wanted)]


def _listed(names: Names) -> list[str]:
    listed = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    for name in listed:
        if not isinstance(name, str):
            raise ConfigError(f"names are text, or a list of it; {name!r} is none")
    return listed

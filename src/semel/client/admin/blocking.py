"""`Admin`: the same for code that blocks, with its loop in a thread of its own."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from semel.client.admin.acls import Acl
from semel.client.admin.asynchronous import AsyncAdmin, ClusterDescription, Names
from semel.client.admin.configs import ConfigEntry
from semel.client.admin.finding import ConfigKind, Partitions
from semel.client.admin.groups import GroupDescription, GroupListing
from semel.client.admin.hanging import Hanging
from semel.client.admin.lag import PartitionLag
from semel.client.admin.settings import AdminOptions, Setting
from semel.client.admin.topics import CLUSTER_DEFAULT
from semel.client.admin.transactions import TransactionDescription, TransactionListing
from semel.client.cluster.loop_thread import LoopThread
from semel.client.cluster.metadata import TopicMetadata
from semel.errors import NotInOrder
from semel.types import TopicPartition

_Result = TypeVar("_Result")


class Admin:
    """Sees and changes topics, settings, groups, offsets and transactions of any cluster.

    >>> with Admin("127.0.0.1:9092") as admin:
    ...     admin.create_topics("orders", partitions=6)
    ...     print(admin.end_offsets("orders"))

    Without servers `SEMEL_BOOTSTRAP_SERVERS` names them. Calls that take several names do what they
    can, and raise the first refusal with the others as its notes. May be used by several threads.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        **options: Unpack[AdminOptions],
    ) -> None:
        self._admin = AsyncAdmin(bootstrap_servers, **options)
        self._ending = asyncio.Event()
        self._thread = LoopThread("admin", self._main)

    async def _main(self, ready: Callable[[], None]) -> None:
        ready()
        try:
            await self._ending.wait()
        finally:
            await self._admin.close()

    def _do(self, work: Callable[[AsyncAdmin], Coroutine[Any, Any, _Result]]) -> _Result:
        return self._thread.call(work(self._admin))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections."""
        self._thread.check_may_wait()
        with suppress(NotInOrder):
            self._thread.wake(self._ending.set)
        if not self._thread.is_forked:
            self._thread.join()

    # The cluster

    def describe_cluster(self) -> ClusterDescription:
        return self._do(AsyncAdmin.describe_cluster)

    # Topics

    def create_topics(
        self,
        names: Names,
        *,
        partitions: int = CLUSTER_DEFAULT,
        replicas: int = CLUSTER_DEFAULT,
        configs: Mapping[str, Setting] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Create topics that are alike; -1 is what the cluster has set for new ones."""
        self._do(
            lambda admin: admin.create_topics(
                names,
                partitions=partitions,
                replicas=replicas,
                configs=configs,
                exist_ok=exist_ok,
            )
        )

    def delete_topics(self, names: Names, *, missing_ok: bool = False) -> None:
        """Delete topics with all their records, for good."""
        self._do(lambda admin: admin.delete_topics(names, missing_ok=missing_ok))

    def create_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many partitions in all."""
        self._do(lambda admin: admin.create_partitions(topic, total))

    def list_topics(
        self, pattern: str | re.Pattern[str] | None = None, *, internal: bool = False
    ) -> list[str]:
        """The names of all topics, or of those whose whole name matches a regular expression."""
        return self._do(lambda admin: admin.list_topics(pattern, internal=internal))

    def describe_topics(self, names: Names | None = None) -> dict[str, TopicMetadata]:
        """The partitions of these topics, or of all: who leads them, and who has copies."""
        return self._do(lambda admin: admin.describe_topics(names))

    def sizes(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """The bytes of these partitions; a name stands for all partitions of a topic."""
        return self._do(lambda admin: admin.sizes(partitions))

    # Offsets and records

    def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """The first offset of these partitions; a name stands for all partitions of a topic."""
        return self._do(lambda admin: admin.beginning_offsets(partitions))

    def end_offsets(
        self, partitions: Partitions, *, isolation: str = "read_committed"
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record that may be read."""
        return self._do(lambda admin: admin.end_offsets(partitions, isolation=isolation))

    def offsets_at(self, partitions: Partitions, time: int | datetime) -> dict[TopicPartition, int]:
        """The offset of the first record of this time or later, or the end if there is none.

        The time is a datetime, or in milliseconds since 1970.
        """
        return self._do(lambda admin: admin.offsets_at(partitions, time))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies below these offsets, for good; where each partition begins then."""
        return self._do(lambda admin: admin.delete_records(before))

    # Settings

    def describe_configs(self, kind: ConfigKind, name: str | int) -> dict[str, ConfigEntry]:
        """All settings of a topic, a group or a broker, by their names; `all` is all brokers."""
        return self._do(lambda admin: admin.describe_configs(kind, name))

    def alter_configs(
        self, kind: ConfigKind, name: str | int, changes: Mapping[str, Setting | None]
    ) -> None:
        """Change these settings, and no others; None takes one back to what is inherited."""
        self._do(lambda admin: admin.alter_configs(kind, name, changes))

    # Groups

    def list_groups(self) -> list[GroupListing]:
        return self._do(AsyncAdmin.list_groups)

    def describe_group(self, group: str) -> GroupDescription:
        """The state of a group, and its members with their partitions."""
        return self._do(lambda admin: admin.describe_group(group))

    def delete_groups(self, names: Names, *, missing_ok: bool = False) -> None:
        """Delete groups without members, and their offsets."""
        self._do(lambda admin: admin.delete_groups(names, missing_ok=missing_ok))

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Every offset that the group has committed."""
        return self._do(lambda admin: admin.committed_offsets(group))

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets for a group that has no members at the moment."""
        self._do(lambda admin: admin.set_offsets(group, offsets))

    def delete_offsets(self, group: str, partitions: Partitions) -> None:
        """Let the group forget what it has committed in topics that it does not read any more."""
        self._do(lambda admin: admin.delete_offsets(group, partitions))

    def lag(
        self, group: str, *, isolation: str = "read_committed"
    ) -> dict[TopicPartition, PartitionLag]:
        """How far behind the group is: in offsets, and since when its next record waits."""
        return self._do(lambda admin: admin.lag(group, isolation=isolation))

    # Transactions

    def list_transactions(self, *, only_open: bool = False) -> list[TransactionListing]:
        """The transactional ids that the cluster knows, with their states."""
        return self._do(lambda admin: admin.list_transactions(only_open=only_open))

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Its state, its producer, and the partitions of what it has open."""
        return self._do(lambda admin: admin.describe_transaction(transactional_id))

    def abort_transaction(self, transactional_id: str) -> TransactionDescription:
        """Abort what this id has open, and shut its producer out; what it was."""
        return self._do(lambda admin: admin.abort_transaction(transactional_id))

    def hanging_transactions(self, partitions: Partitions | None = None) -> list[Hanging]:
        """Those that are open in these partitions, or anywhere, and that nobody is going to end."""
        return self._do(lambda admin: admin.hanging_transactions(partitions))

    # Who may do what

    def list_acls(
        self,
        resource_type: str | None = None,
        name: str | None = None,
        principal: str | None = None,
    ) -> list[Acl]:
        """All rules, or those that apply to a name, of prefixes and of `*` too."""
        return self._do(lambda admin: admin.list_acls(resource_type, name, principal))

    def create_acls(self, rules: Sequence[Acl]) -> None:
        """Let these rules be there, perhaps beside others."""
        self._do(lambda admin: admin.create_acls(rules))

    def delete_acls(self, rules: Sequence[Acl]) -> list[Acl]:
        """Take these rules back; gives those that were there."""
        return self._do(lambda admin: admin.delete_acls(rules))

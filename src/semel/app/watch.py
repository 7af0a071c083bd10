"""Looking after the members from outside: how much waits for them, and what they wait for."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from semel.app.listener import Listener
from semel.app.member import ListenerMember
from semel.app.pauses import Pauses
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import ClusterMetadata
from semel.client.cluster.offsets import ends_of
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.consuming.settings import settings_of
from semel.errors import RequestError, SemelError
from semel.security import Security
from semel.types import TopicPartition

_LOOK_INTERVAL_S = 1.0
_LOOK_TIMEOUT_MS = 5_000
_IDLE_INTERVAL_S = 0.01


class Watch:
    def __init__(
        self,
        bootstrap_servers: str,
        security: Security,
        members: Mapping[Listener, Sequence[ListenerMember]],
    ) -> None:
        self._cluster = Cluster(
            parse_bootstrap_servers(bootstrap_servers),
            timeout_ms=_LOOK_TIMEOUT_MS,
            connect_timeout_ms=_LOOK_TIMEOUT_MS,
            security=security,
        )
        self._members = members
        self.troubles: dict[Listener, str] = {}
        """Why a listener gets nothing to do."""

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                await self._look_at_cluster()
                await self._look_at_lag()
                await asyncio.sleep(_LOOK_INTERVAL_S)
        finally:
            await self._cluster.__aexit__(None, None, None)

    async def _look_at_cluster(self) -> None:
        try:
            described = await self._cluster.describe(sorted(self._names()))
        except SemelError as error:
            self.troubles = dict.fromkeys(self._members, str(error))
        else:
            self.troubles = {
                listener: refused
                for listener in self._members
                if (refused := _refused(listener, described)) is not None
            }

    def _names(self) -> set[str]:
        named = [each.topics for each in self._members if not isinstance(each.topics, re.Pattern)]
        return {name for names in named for name in names}

    async def _look_at_lag(self) -> None:
        for members in self._members.values():
            for member in members:
                if member.counts.partitions:
                    with suppress(SemelError):
                        await member.look_at_lag()


def _refused(listener: Listener, described: ClusterMetadata) -> str | None:
    if isinstance(listener.topics, re.Pattern):
        return None
    for name in listener.topics:
        if name in described.refused:
            return str(described.refused[name])
    return None


class Idleness:
    """Whether an application has worked on everything there is: for tests, which end then."""

    def __init__(
        self,
        bootstrap_servers: str,
        security: Security,
        members: Mapping[Listener, Sequence[ListenerMember]],
        pauses: Pauses,
    ) -> None:
        self._cluster = Cluster(parse_bootstrap_servers(bootstrap_servers), security=security)
        self._members = members
        self._pauses = pauses

    async def reached(self) -> None:
        async with self._cluster:
            while not await self._is_reached():  # noqa: ASYNC110 - nobody tells of an end.
                await asyncio.sleep(_IDLE_INTERVAL_S)

    async def _is_reached(self) -> bool:
        """Whether nothing was left at a moment at which nobody worked.

        The ends are asked for between two looks at the members that find them waiting, with no
        cycle in between: so none of them can have written what another one will read.
        """
        before = self._cycle_counts()
        if before is None:
            return False
        try:
            ends = await self._ends()
        except RequestError:
            return False
        for listener, partitions in ends.items():
            for partition, end in partitions.items():
                if not await self._is_read(listener, partition, end):
                    return False
        return before == self._cycle_counts()

    def _cycle_counts(self) -> list[int] | None:
        """Of each member; None if one of them is within a cycle."""
        members = [member for each in self._members.values() for member in each]
        if not all(member.is_waiting for member in members):
            return None
        return [member.cycle_count for member in members]

    async def _ends(self) -> dict[Listener, dict[TopicPartition, int]]:
        ends = {}
        for listener in self._members:
            if listener.name in self._pauses:
                continue
            partitions = await self._partitions(listener)
            isolation = settings_of(listener.group, listener.consumer_options).isolation
            ends[listener] = await ends_of(self._cluster, partitions, isolation)
        return ends

    async def _partitions(self, listener: Listener) -> list[TopicPartition]:
        names = {
            name for member in self._members[listener] for name in member.consumer.subscription
        }
        return [
            TopicPartition(name, partition.partition)
            for name, topic in (await self._cluster.topics(names)).items()
            for partition in topic.partitions
        ]

    async def _is_read(self, listener: Listener, partition: TopicPartition, end: int) -> bool:
        for member in self._members[listener]:
            if partition in member.consumer.assignment:
                return await member.consumer.position(partition) >= end
        return False

"""Looking after the members from outside: how much waits for them, and what they wait for."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from semel.app.listener import Listener
from semel.app.member import Member
from semel.client.cluster.cluster import Cluster
from semel.client.cluster.metadata import ClusterMetadata
from semel.client.connecting.address import parse_bootstrap_servers
from semel.client.security import Security
from semel.errors import SemelError

_INTERVAL_S = 1.0
_TIMEOUT_MS = 5_000


class Watch:
    def __init__(
        self,
        bootstrap_servers: str,
        security: Security,
        members: Mapping[Listener, Sequence[Member]],
    ) -> None:
        self._cluster = Cluster(
            parse_bootstrap_servers(bootstrap_servers),
            timeout_ms=_TIMEOUT_MS,
            connect_timeout_ms=_TIMEOUT_MS,
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
                await asyncio.sleep(_INTERVAL_S)
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

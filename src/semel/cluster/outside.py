"""A cluster as one sees it who has its store and runs none of its nodes: where they are, and what
they answer.

The store alone is needed: its journal names the leader and those that stand by, and its key opens
their ears.
"""

import asyncio
from typing import Final, Self

from semel.cluster.channel import Channel, Connect, NodeAway, connect
from semel.cluster.format import ClusterFormat, ClusterRefused, check_same
from semel.cluster.levels import LEVELS
from semel.cluster.messages import AnyAnswer, AnyRequest, Describe, Refused
from semel.groups.settings import GroupSettings
from semel.journal.slots.following import Follower
from semel.lane.commands import LaneSettings
from semel.lane.following import FollowedLane
from semel.lane.leader import LedBy, NodeAddress
from semel.store.seam import Store
from semel.types import CATALOGUE_LANE
from semel.world import Randomness, SystemRandomness

CONNECTING_S: Final = 5.0
DEAF_PAUSE_S: Final = 0.1
ATTEMPTS: Final = 3
"""A leader that was just found may have handed over meanwhile."""


class Outside:
    """Read anew by each `look`."""

    def __init__(
        self, store: Store, format_: ClusterFormat, randomness: Randomness, connect: Connect
    ) -> None:
        self._store = store
        self._format = format_
        self._randomness = randomness
        self._connect = connect
        self._followed: FollowedLane

    @classmethod
    async def of(
        cls,
        store: Store,
        format_: ClusterFormat,
        randomness: Randomness | None = None,
        connect: Connect = connect,
    ) -> Self:
        """Raises ClusterRefused, NewerFormat, CorruptJournal, StoreAway, StoreRefused."""
        outside = cls(store, format_, randomness or SystemRandomness(), connect)
        await outside.look()
        return outside

    async def look(self) -> None:
        follower = Follower(self._store, CATALOGUE_LANE)
        await follower.begin()
        self._followed = _followed(follower)
        while True:
            slot = follower.slot
            if await follower.look():
                self._followed = _followed(follower)
            else:
                self._followed.read_on(follower)
            if follower.slot == slot:
                break
        check_same(self._followed.cluster_id, self._format)

    @property
    def cluster_id(self) -> bytes:
        return self._format.cluster_id

    @property
    def led_by(self) -> LedBy | None:
        """Who has led last."""
        return self._followed.led_by

    @property
    def standing_by(self) -> list[NodeAddress]:
        return self._followed.standing_by

    async def ask_leader(self, request: AnyRequest, patience_s: float) -> AnyAnswer:
        """Raises ClusterRefused with what it says instead."""
        reason = ""
        for _ in range(ATTEMPTS):
            led_by = self.led_by
            if led_by is None:
                raise ClusterRefused("no node has led this cluster yet: `semel serve` runs one")
            answer = await self._ask(led_by.address, request, patience_s)
            if not isinstance(answer, Refused):
                return answer
            reason = answer.reason
            if answer.is_final:
                raise ClusterRefused(reason)
            await self.look()
        raise ClusterRefused(f"{reason}; nobody seems to: try again")

    async def ask(self, node_id: int, request: AnyRequest, patience_s: float) -> AnyAnswer:
        """Raises ClusterRefused, also if there is no such node."""
        nodes = {node.node_id: node for node in self.nodes}
        if node_id not in nodes:
            known = ", ".join(map(str, sorted(nodes))) or "none"
            raise ClusterRefused(f"node {node_id} is not among those that are known: {known}")
        answer = await self._ask(nodes[node_id], request, patience_s)
        if isinstance(answer, Refused):
            raise ClusterRefused(answer.reason)
        return answer

    @property
    def nodes(self) -> list[NodeAddress]:
        """All that are known, by their ids."""
        nodes = {node.node_id: node for node in self.standing_by}
        if self.led_by is not None:
            nodes[self.led_by.node_id] = self.led_by.address
        return [nodes[node_id] for node_id in sorted(nodes)]

    async def deaf(self, patience_s: float) -> list[int]:
        """Those that do not answer to this key, or at all, for so long."""

        async def hears(address: NodeAddress) -> bool:
            loop = asyncio.get_running_loop()
            until_s = loop.time() + patience_s
            while True:
                try:
                    await self._ask(address, Describe(), patience_s)
                except ClusterRefused:
                    if loop.time() >= until_s:
                        return False
                    await asyncio.sleep(DEAF_PAUSE_S)
                else:
                    return True

        heard = await asyncio.gather(*(hears(address) for address in self.nodes))
        return [node.node_id for node, has in zip(self.nodes, heard, strict=True) if not has]

    async def _ask(self, address: NodeAddress, request: AnyRequest, patience_s: float) -> AnyAnswer:
        try:
            channel = await Channel.open(
                self._connect,
                address.host,
                address.port,
                self._format.rpc_key,
                self._randomness,
                CONNECTING_S,
            )
            try:
                return await channel.ask(request, patience_s)
            finally:
                channel.close()
        except NodeAway as error:
            raise ClusterRefused(f"node {address.node_id}: {error}") from error


def _followed(follower: Follower) -> FollowedLane:
    return FollowedLane(LaneSettings(GroupSettings()), CATALOGUE_LANE, follower, LEVELS.check)

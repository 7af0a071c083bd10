"""A node that stands by says to whoever leads that it is alive.

It speaks to the leader alone, who says it to all in lane 0. Not to be heard costs a node nothing
but that clients are not told of it, and its rank.
"""

import asyncio
import contextlib
from collections.abc import Callable

from semel.cluster.channel import Channel, Connect, NodeAway
from semel.cluster.format import ClusterRefused
from semel.cluster.messages import Beat, Refused
from semel.cluster.silence import Timing
from semel.lane.leader import NodeAddress
from semel.world import Randomness


class Beating:
    def __init__(
        self,
        connect: Connect,
        key: bytes,
        randomness: Randomness,
        timing: Timing,
        beat: Callable[[], Beat],
    ) -> None:
        self._connect = connect
        self._key = key
        self._randomness = randomness
        self._timing = timing
        self._beat = beat
        self._leader: NodeAddress | None = None
        self._is_new = asyncio.Event()

    def led_by(self, leader: NodeAddress | None) -> None:
        """Whom to tell from here on; None if that is nobody, or this node."""
        if leader != self._leader:
            self._leader = leader
            self._is_new.set()

    async def run(self) -> None:
        """Until it is cancelled. Raises ClusterRefused if the leader does not want this node."""
        while True:
            leader = self._leader
            self._is_new.clear()
            if leader is not None:
                with contextlib.suppress(NodeAway):
                    await self._beat_to(leader)
            await self._pause()

    async def _beat_to(self, leader: NodeAddress) -> None:
        """While it leads. Raises NodeAway, ClusterRefused."""
        patience_s = self._timing.detection_s
        channel = await Channel.open(
            self._connect, leader.host, leader.port, self._key, self._randomness, patience_s
        )
        try:
            while self._leader == leader:
                answer = await channel.ask(self._beat(), patience_s)
                if isinstance(answer, Refused) and answer.is_final:
                    raise ClusterRefused(answer.reason)
                await self._pause()
        finally:
            channel.close()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timing.beat_s):
                await self._is_new.wait()

"""A node that stands by says to whoever leads that it is alive.

It speaks to the leader alone, who says it to all in lane 0. Not to be heard costs a node nothing
but that clients are not told of it, and its rank.
"""

import asyncio
import contextlib
from collections.abc import Callable

from semel.cluster.channel import NodeAway, Reach
from semel.cluster.format import ClusterRefused
from semel.cluster.messages import Beat, Goodbye, Refused
from semel.cluster.silence import Timing
from semel.lane.leader import NodeAddress


class Beating:
    def __init__(
        self,
        reach: Reach,
        timing: Timing,
        beat: Callable[[], Beat],
        on_away: Callable[[], None],
    ) -> None:
        """`on_away` hears that a leader does not answer, or does not know this node."""
        self._reach = reach
        self._timing = timing
        self._beat = beat
        self._on_away = on_away
        self._leader: NodeAddress | None = None
        self._is_new = asyncio.Event()

    def led_by(self, leader: NodeAddress | None) -> None:
        """Whom to tell from here on; None if that is nobody, or this node."""
        if leader != self._leader:
            self._leader = leader
            self._is_new.set()

    def now(self) -> None:
        """Something is to be said that should not wait."""
        self._is_new.set()

    async def run(self) -> None:
        """Until it is cancelled. Raises ClusterRefused if the leader does not want this node."""
        while True:
            leader = self._leader
            self._is_new.clear()
            if leader is not None:
                try:
                    await self._beat_to(leader)
                except NodeAway:
                    self._on_away()
            await self._pause()

    async def _beat_to(self, leader: NodeAddress) -> None:
        """While it leads. Raises NodeAway, ClusterRefused."""
        patience_s = self._timing.detection_s
        channel = await self._reach(leader)
        try:
            while self._leader == leader:
                self._is_new.clear()
                answer = await channel.ask(self._beat(), patience_s)
                if isinstance(answer, Refused) and answer.is_final:
                    raise ClusterRefused(answer.reason)
                await self._pause()
        finally:
            channel.close()

    async def say_goodbye(self, goodbye: Goodbye) -> None:
        """Say that this node goes, so that nobody has to find that out."""
        leader, self._leader = self._leader, None
        if leader is not None:
            patience_s = self._timing.beat_s
            with contextlib.suppress(NodeAway):
                channel = await self._reach(leader)
                try:
                    await channel.ask(goodbye, patience_s)
                finally:
                    channel.close()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timing.beat_s):
                await self._is_new.wait()

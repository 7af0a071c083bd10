"""A node that cannot read the store asks the others who leads.

Clients go on asking a node that answers, whatever it says: librdkafka prefers the one that it heard
last. One that is cut off from the store alone would keep them from a cluster that is well. Nothing
rests on what is heard so: clients are sent there, and who leads proves it to them.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from semel.cluster.channel import NodeAway, Reach
from semel.cluster.messages import Describe, Described
from semel.cluster.silence import Timing
from semel.lane.leader import LedBy, NodeAddress
from semel.types import Term


class AskingAround:
    def __init__(
        self,
        reach: Reach,
        timing: Timing,
        is_blind: Callable[[], bool],
        tell: Callable[[LedBy | None], None],
    ) -> None:
        """`tell` hears who leads, or that nobody says so, again and again while the node `is_blind`
        and knows of others."""
        self._reach = reach
        self._timing = timing
        self._is_blind = is_blind
        self._tell = tell
        self.others: list[NodeAddress] = []
        """All that were heard of last, but this one."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(self._timing.beat_s)
            if self._is_blind() and self.others:
                leader = await self._leader(tuple(self.others))
                if self._is_blind():
                    self._tell(leader)

    async def _leader(self, others: Iterable[NodeAddress]) -> LedBy | None:
        """One that was frozen may take itself for it a moment longer: the newest is right."""
        found: list[LedBy] = []

        async def ask(address: NodeAddress) -> None:
            with contextlib.suppress(NodeAway):
                channel = await self._reach(address)
                try:
                    told = await channel.ask(Describe(), self._timing.detection_s)
                finally:
                    channel.close()
                if isinstance(told, Described) and told.node_id == address.node_id:
                    found.append(LedBy(Term(told.epoch), *address))

        async with asyncio.TaskGroup() as tasks:
            for address in others:
                tasks.create_task(ask(address))
        return max(found, default=None)

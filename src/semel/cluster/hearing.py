"""What the leaders of other lanes have worked in of lane 0, as its leader hears with their beats.

Law: a name that was deleted is free when every lane has dropped what it had of it. Who takes a lane
drops it before it serves; who led one and is gone counts as one that has not, until another does.
"""

import asyncio
import contextlib
from functools import partial
from typing import Final

from semel.cluster.membership import Membership
from semel.journal.slots.journal import SlotJournal
from semel.lane.lane import Lane

HEARD_S_MAX: Final = 5.0
"""So long who changed something waits until others know."""
GONE: Final = 3
"""Detection times. Behind so many, nobody who is gone comes back with a lane that nobody took."""


class Hearing:
    """What others have heard, as the leader of lane 0 knows it; made anew with each leader."""

    def __init__(
        self,
        own_id: int,
        lane: Lane,
        journal: SlotJournal,
        membership: Membership,
        detection_s: float,
    ) -> None:
        self._own_id = own_id
        self._lane = lane
        self._journal = journal
        self._membership = membership
        self._detection_s = detection_s
        self.last_change = 0
        self._behind: dict[int, int] = {0: journal.slot}
        """The first slot behind each change that is durable, and that not all have heard of."""
        self._heard_change = -1
        """All have heard of this one, and so of those before."""
        self._has_heard = asyncio.Event()
        self._silent_since_s: dict[int, float] = {}

    # What has changed

    def topic(self, name: object) -> int:
        """Gives the number of this change."""
        self.last_change += 1
        self._lane.when_all_durable(partial(self._on_durable, self.last_change))
        return self.last_change

    broker = user = rule = quotas = topic

    def _on_durable(self, change: int) -> None:
        self._behind[change] = self._journal.slot
        self.look()

    # Who has heard of it

    def look(self) -> None:
        """Let who waits look again: somebody may have heard of something."""
        self._has_heard.set()
        self._has_heard = asyncio.Event()

    @property
    def have_all_begun(self) -> bool:
        """Whether every other leader has heard of what was said before this one led."""
        return self.have_all_heard(0)

    def have_all_heard(self, change: int) -> bool:
        if change > self._heard_change:
            slot = self._behind.get(change)
            if slot is None or not all(
                self._has_worked_in(node_id, slot) for node_id in self._leaders()
            ):
                return False
            self._heard_change = change
            for heard in [each for each in self._behind if each <= change]:
                del self._behind[heard]
        return True

    async def until_heard(self, change: int | None = None) -> None:
        """Until all have worked in what has changed by now, or for a while."""
        change = self.last_change if change is None else change
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_S_MAX):
                while self._lane.is_leading and not self.have_all_heard(change):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._detection_s / 4):
                            await self._has_heard.wait()

    async def until_all_have_begun(self) -> None:
        await self.until_heard(0)

    def _leaders(self) -> set[int]:
        return {led_by.node_id for led_by in self._lane.view.lanes.taken.values()}

    def _has_worked_in(self, node_id: int, slot: int) -> bool:
        if node_id == self._own_id:
            return True
        at_s = asyncio.get_running_loop().time()
        worked_in = self._membership.worked_in(node_id, at_s)
        if worked_in is not None:
            self._silent_since_s.pop(node_id, None)
            return worked_in >= slot
        since_s = self._silent_since_s.setdefault(node_id, at_s)
        return at_s - since_s >= GONE * self._detection_s

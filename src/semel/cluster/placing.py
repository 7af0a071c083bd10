"""What the leader of lane 0 does about the other lanes, as long as it leads: it says where each is
to be led, and who leads it."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from semel.cluster.membership import Known, Membership
from semel.cluster.messages import LedLane
from semel.cluster.placement import Candidate, Lanes, next_placements, released
from semel.lane.lane import Lane
from semel.lane.lanes import LanesView, Placement
from semel.lane.leader import LedBy, NodeAddress
from semel.lane.nodes import AddLanes, NoteTaken, PlaceLanes
from semel.types import Term

WAIT_S_MAX: Final = 2.0
"""So long a new leader waits to hear of those that live, before it places what may be theirs."""
REST: Final = 5
"""Detection times. Behind so much time without a change lanes move that need not."""


class Placing:
    def __init__(
        self,
        lane: Lane,
        membership: Membership,
        own: Callable[[], Candidate],
        gone: int | None,
        detection_s: float,
    ) -> None:
        """`lane` is lane 0, `gone` the node that has led it before and was silent."""
        self._lane = lane
        self._membership = membership
        self._own = own
        self._detection_s = detection_s
        self._began_s = self._changed_s = now_s()
        self._gone = gone
        self._candidates: list[Candidate] = []
        self._must_level = False
        self.changed = asyncio.Event()
        """Set, and replaced, when lane 0 has something new to say of lanes."""

    @property
    def lanes(self) -> LanesView:
        return self._lane.view.lanes

    @property
    def _is_waiting(self) -> bool:
        """A new leader has not heard of all yet: who is silent so far may live."""
        return self._wait_s > 0

    @property
    def _wait_s(self) -> float:
        return self._began_s + min(WAIT_S_MAX, self._detection_s / 2) - now_s()

    def look(self) -> None:
        """Say what is to be said now. Raises JournalFull, NotLeaderOrFollower."""
        lanes, at_s = self.lanes, now_s()
        if lanes.count == 1:
            return
        live = [_candidate(known) for known in self._membership.all_live(at_s)]
        candidates = [self._own(), *live]
        if candidates != self._candidates:
            self._candidates = candidates
            self._changed_s = at_s
        may_level = self._must_level or at_s - self._changed_s >= REST * self._detection_s
        placements = next_placements(
            Lanes(
                lanes.count,
                lanes.placed,
                {lane: led_by.node_id for lane, led_by in lanes.taken.items()},
            ),
            candidates,
            candidates[0].node_id,
            may_level=may_level and not self._is_waiting,
        )
        if self._is_waiting:
            placements = {
                lane: each for lane, each in placements.items() if self._need_not_wait(lane)
            }
        self._say(PlaceLanes(placements))

    def _need_not_wait(self, lane: int) -> bool:
        placed = self.lanes.placed.get(lane)
        if placed is None:
            return False
        known = {each.node_id for each in self._candidates}
        return placed.node_id in known or placed.node_id == self._gone

    def heard_of(self, node: NodeAddress, led: Iterable[LedLane]) -> None:
        """This node says that it leads these. Raises as `look`."""
        for each in led:
            if 0 < each.lane < self.lanes.count:
                self._say(NoteTaken(each.lane, LedBy(Term(each.epoch), *node)))

    def place(self, lane: int, node_id: int) -> None:
        """Place a lane as an operator wants it, and leave it there. Raises as `look`."""
        self._say(PlaceLanes({lane: Placement(node_id, is_pinned=True)}))

    def add(self, lane_count: int) -> int:
        """Raises as `look`."""
        self._say(AddLanes(lane_count))
        self._began_s = now_s()
        self.look()
        return self.lanes.count

    async def level(self) -> int:
        """Move lanes until they are spread evenly; gives how many have moved. Raises as `look`, and
        TimeoutError if a node does not take what is placed there."""
        self._say(PlaceLanes(released(self.lanes.placed)))
        before = self.leaders()
        self._must_level = True
        try:
            await asyncio.sleep(max(0.0, self._wait_s))
            while True:
                placed = dict(self.lanes.placed)
                self.look()
                async with asyncio.timeout(PATIENCE * self._detection_s):
                    await self.until(lambda: self.is_done)
                if placed == self.lanes.placed:
                    break
        finally:
            self._must_level = False
        after = self.leaders()
        return sum(before.get(lane) != node_id for lane, node_id in after.items())

    def leaders(self) -> Mapping[int, int]:
        """Of the lanes, as far as it was heard."""
        return {lane: led_by.node_id for lane, led_by in self.lanes.taken.items()}

    @property
    def is_done(self) -> bool:
        """Every lane is led where it is placed."""
        leaders, placed = self.leaders(), self.lanes.placed
        return all(
            lane in placed and leaders.get(lane) == placed[lane].node_id
            for lane in range(1, self.lanes.count)
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when lane 0 says so, or it is led here no more."""
        while self._lane.is_leading and not condition():
            await self.changed.wait()

    def _say(self, command: AddLanes | PlaceLanes | NoteTaken) -> None:
        lane = self._lane
        end = lane.end
        lane.submit(command)
        if lane.end != end:
            # Somebody waits for it.
            lane.when_all_durable(self._tell)

    def close(self) -> None:
        """Lane 0 is led here no more."""
        self._tell()

    def _tell(self) -> None:
        self._changed_s = now_s()
        self.changed.set()
        self.changed = asyncio.Event()


PATIENCE: Final = 3
"""Detection times. So long a node may take to lead what is placed there."""


def _candidate(known: Known) -> Candidate:
    return Candidate(known.address.node_id, known.is_drained, known.is_leaving)


def now_s() -> float:
    return asyncio.get_running_loop().time()

"""What a broker knows of the leaders where it does not lead itself, and who waits to know it."""

import asyncio
import contextlib
from collections.abc import Mapping

from semel.lane.following import FollowedLane
from semel.lane.leader import NO_LISTENERS, LedBy, Listeners, NodeAddress
from semel.lane.view import LaneView


class Elsewhere:
    def __init__(self, own_id: int) -> None:
        self._own_id = own_id
        self._followed: FollowedLane | None = None
        """Lane 0 as another leads it."""
        self._is_followed_led = False
        self._told: LedBy | None = None
        """Who has said itself that it leads, before it was heard of in lane 0."""
        self.is_known = False
        """Who leads, here or elsewhere. Asked with every request, so that it is no property."""
        self._becomes_known = asyncio.Event()
        self._by_lane: Mapping[int, LedBy] | None = None
        """Of all lanes; None where lane 0 says who leads them."""
        self._here: LaneView | None = None
        """Lane 0, while it is led here."""
        self._told_of: dict[int, LedBy] = {}
        """Who leads the other lanes, before it was heard of in lane 0."""

    # What is heard

    def hear_of_lanes(self, by_lane: Mapping[int, LedBy]) -> None:
        """Who leads each lane, this node perhaps among them."""
        self._by_lane = by_lane
        self._look()

    def follow(self, followed: FollowedLane, *, is_led: bool) -> bool:
        """Whether this is another than before, of which nothing is known yet."""
        is_new = followed is not self._followed
        self._followed = followed
        self._is_followed_led = is_led
        told, led_by = self._told, followed.led_by
        if told is not None and led_by is not None and led_by.epoch >= told.epoch:
            self._told = None
        self._look()
        return is_new

    def hear_of(self, leader: LedBy) -> None:
        """Another says that it leads, sooner than lane 0 does here."""
        if self._here is None:
            self._told = leader
            self._look()

    def hear_while_blind(self, leader: LedBy | None) -> None:
        """What was followed tells no more who leads."""
        if self._here is None:
            self._told, self._is_followed_led = leader, False
            self._look()

    def hear_of_lane(self, lane: int, leader: LedBy) -> None:
        """As `hear_of`, of another lane than lane 0; perhaps from this very node."""
        told = self._told_of.get(lane)
        if told is None or told.epoch <= leader.epoch:
            self._told_of[lane] = leader

    def came_here(self, lane: LaneView) -> None:
        # What was followed may be what the lane goes on from, and say what is not durable yet.
        self._followed = self._told = None
        self._here = lane
        self._look()

    def left_here(self) -> None:
        self._here = None
        self._look()

    def _look(self) -> None:
        has_been_told = self._by_lane is not None or self.led_by is not None
        self.is_known = self._here is not None or has_been_told
        if self.is_known:
            self._becomes_known.set()
        else:
            self._becomes_known.clear()

    # What is known

    @property
    def led_by(self) -> LedBy | None:
        """Another node, which leads lane 0; None if that is this one, or it is not known."""
        if self._by_lane is not None:
            return self.leader_of(0)
        if self._here is not None:
            return None
        if self._told is not None:
            return self._told
        followed = self._followed
        if followed is None or not self._is_followed_led:
            return None
        led_by = followed.led_by
        return None if led_by is None or led_by.node_id == self._own_id else led_by

    def leader_of(self, lane: int) -> LedBy | None:
        """Another node, which leads this lane; None if that is this one, or it is not known."""
        if self._by_lane is not None:
            led_by = self._by_lane.get(lane)
        elif lane == 0:
            led_by = self.led_by
        else:
            led_by = self._leader_on_store(lane)
        return None if led_by is None or led_by.node_id == self._own_id else led_by

    def _leader_on_store(self, lane: int) -> LedBy | None:
        """Whom lane 0 calls gone does not lead, whatever was said before."""
        told = self._told_of.get(lane)
        lane_0 = self._followed if self._here is None else self._here
        taken = None if lane_0 is None else lane_0.lanes.taken.get(lane)
        if told is not None and (taken is None or taken.epoch < told.epoch):
            return told
        if taken is None or lane_0 is None:
            return None
        live = {node.node_id for node in lane_0.standing_by}
        if self._here is None and (led_by := self.led_by) is not None:
            live.add(led_by.node_id)
        return taken if taken.node_id in live else None

    @property
    def standing_by(self) -> list[NodeAddress]:
        return [] if self._followed is None else self._followed.standing_by

    @property
    def listeners(self) -> Mapping[int, Listeners]:
        """Where clients find the nodes, as far as it is said of them."""
        return NO_LISTENERS if self._followed is None else self._followed.listeners

    @property
    def caught_up_s(self) -> float | None:
        """When it was last known that nothing stands behind what is followed."""
        return None if self._followed is None else self._followed.caught_up_s

    async def until_known(self, patience_s: float) -> None:
        """Return when it is, or patience is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._becomes_known.wait()

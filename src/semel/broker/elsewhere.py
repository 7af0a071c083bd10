"""What a broker knows of the leaders where it does not lead itself, and who waits to know it."""

import asyncio
import contextlib
from collections.abc import Mapping

from semel.lane.following import FollowedLane
from semel.lane.leader import LedBy, NodeAddress


class Elsewhere:
    def __init__(self, own_id: int) -> None:
        self._own_id = own_id
        self._is_here = False
        self._followed: FollowedLane | None = None
        """Lane 0 as another leads it."""
        self._is_followed_led = False
        self._told: LedBy | None = None
        """Who has said itself that it leads, before it was heard of in lane 0."""
        self._is_known = asyncio.Event()
        self._by_lane: Mapping[int, LedBy] | None = None
        """Of all lanes; None where who leads lane 0 leads them all."""

    # What is heard

    def hear_of_lanes(self, by_lane: Mapping[int, LedBy]) -> None:
        """Who leads each lane, this node perhaps among them."""
        self._by_lane = by_lane
        self._look()

    def follow(self, followed: FollowedLane, *, is_led: bool) -> None:
        self._followed = followed
        self._is_followed_led = is_led
        told, led_by = self._told, followed.led_by
        if told is not None and led_by is not None and led_by.epoch >= told.epoch:
            self._told = None
        self._look()

    def hear_of(self, leader: LedBy) -> None:
        """Another says that it leads, sooner than lane 0 does here."""
        if not self._is_here:
            self._told = leader
            self._look()

    def hear_while_blind(self, leader: LedBy | None) -> None:
        """What was followed tells no more who leads."""
        if not self._is_here:
            self._told, self._is_followed_led = leader, False
            self._look()

    def came_here(self) -> None:
        # What was followed may be what the lane goes on from, and say what is not durable yet.
        self._followed = self._told = None
        self._is_here = True
        self._look()

    def left_here(self) -> None:
        self._is_here = False
        self._look()

    def _look(self) -> None:
        if self._is_here or self._by_lane is not None or self.led_by is not None:
            self._is_known.set()
        else:
            self._is_known.clear()

    # What is known

    @property
    def led_by(self) -> LedBy | None:
        """Another node, which leads lane 0; None if that is this one, or it is not known."""
        if self._by_lane is not None:
            return self.leader_of(0)
        if self._is_here:
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
        if self._by_lane is None:
            return self.led_by
        led_by = self._by_lane.get(lane)
        return None if led_by is None or led_by.node_id == self._own_id else led_by

    @property
    def standing_by(self) -> list[NodeAddress]:
        return [] if self._followed is None else self._followed.standing_by

    @property
    def caught_up_s(self) -> float | None:
        """When it was last known that nothing stands behind what is followed."""
        return None if self._followed is None else self._followed.caught_up_s

    @property
    def is_known(self) -> bool:
        """Who leads, here or elsewhere."""
        return self._is_known.is_set()

    async def until_known(self, patience_s: float) -> None:
        """Return when it is, or patience is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._is_known.wait()

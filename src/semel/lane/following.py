"""The state of a lane that another leads, kept up by applying what is read of its journal."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from semel.access.access_view import AccessView
from semel.errors import CorruptJournal, NewerFormat
from semel.lane.commands import LaneSettings
from semel.lane.lanes import LanesView
from semel.lane.leader import LedBy, Listeners, NodeAddress
from semel.lane.nodes import standing_by
from semel.lane.opening import Replayed, new_state, replay_frame, replay_on, restore
from semel.lane.state import LaneState
from semel.lane.view import CatalogueView

FRAMES_AT_ONCE: Final = 50


class Followed(Replayed, Protocol):
    @property
    def caught_up_s(self) -> float | None:
        """When it was last known that there is nothing behind what was read; by the loop's
        clock."""


class FollowedLane:
    """Everything here is durable, and may be old: who reads it learns where to ask."""

    def __init__(
        self,
        settings: LaneSettings,
        number: int,
        source: Followed,
        check_level: Callable[[int], None] = lambda level: None,
        *,
        is_read: bool = True,
    ) -> None:
        """`check_level` raises what is to be raised for a level that is not known here. What is
        not read yet is read by `read_on`. Raises CorruptJournal."""
        self._source = source
        self._check_level = check_level
        self._changed_topics: dict[str, None] = {}
        self.state: LaneState = new_state(settings, number)
        """For the lane that goes on from here, if this node takes it."""
        with self._reading():
            restore(self.state, source)
            self.state.catalogue.on_change = self._changed_topics.setdefault
            if is_read:
                replay_on(self.state, source)

    def read_on(self, source: Replayed) -> None:
        """Apply what was read since. Raises as `__init__`."""
        with self._reading():
            replay_on(self.state, source)

    async def read_on_in_pieces(self, source: Replayed) -> None:
        """As `read_on`, while others have their turn: there may be much. Raises as `__init__`."""
        with self._reading():
            # One by one: before it gives the next the source may seal its index behind this one.
            for count, (position, payload) in enumerate(source.replay(), 1):
                replay_frame(self.state, source, position, payload)
                if count % FRAMES_AT_ONCE == 0:
                    await asyncio.sleep(0)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        state = self.state
        try:
            yield
        except (CorruptJournal, NewerFormat):
            # That it is not known here may be all that is wrong with it.
            if state.cluster_id:
                self._check_level(state.level)
            raise
        if state.cluster_id:
            # Before, nothing was read that could say it.
            self._check_level(state.level)

    @property
    def caught_up_s(self) -> float | None:
        return self._source.caught_up_s

    @property
    def cluster_id(self) -> bytes:
        return self.state.cluster_id

    @property
    def catalogue(self) -> CatalogueView:
        return self.state.catalogue

    def take_changed_topics(self) -> list[str]:
        """By name, those that are other than when this was asked last, or gone."""
        changed = [*self._changed_topics]
        self._changed_topics.clear()
        return changed

    def broker_config(self, name: str) -> Mapping[str, str]:
        """What was set for a broker while it ran; for all of them, by an empty name."""
        return self.state.broker_configs.get(name, {})

    @property
    def access(self) -> AccessView:
        return self.state.access

    @property
    def led_by(self) -> LedBy | None:
        led = self.state.led
        if led is None:
            return None
        return LedBy(self.state.epoch, led.node_id, led.host, led.port)

    @property
    def standing_by(self) -> list[NodeAddress]:
        """Other nodes than the leader that it hears of."""
        return standing_by(self.state)

    @property
    def listeners(self) -> Mapping[int, Listeners]:
        """Where clients find these and the leader, by their ids."""
        return self.state.listeners

    @property
    def lanes(self) -> LanesView:
        """All of the cluster; what is followed is lane 0."""
        return self.state.lanes

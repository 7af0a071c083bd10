"""The state of a lane that another leads, kept up by applying what is read of its journal."""

from typing import Protocol

from semel.lane.commands import LaneSettings
from semel.lane.leader import LedBy, NodeAddress
from semel.lane.nodes import standing_by
from semel.lane.opening import Replayed, new_state, rebuild, replay_on
from semel.lane.state import LaneState
from semel.lane.view import CatalogueView


class Followed(Replayed, Protocol):
    @property
    def caught_up_s(self) -> float | None:
        """When it was last known that there is nothing behind what was read; by the loop's
        clock."""


class FollowedLane:
    """Everything here is durable, and may be old: who reads it learns where to ask."""

    def __init__(self, settings: LaneSettings, number: int, source: Followed) -> None:
        """Raises CorruptJournal."""
        self._source = source
        self.state: LaneState = new_state(settings, number)
        """For the lane that goes on from here, if this node takes it."""
        rebuild(self.state, source)

    def read_on(self, source: Replayed) -> None:
        """Apply what was read since. Raises CorruptJournal."""
        replay_on(self.state, source)

    @property
    def caught_up_s(self) -> float | None:
        return self._source.caught_up_s

    @property
    def cluster_id(self) -> bytes:
        return self.state.cluster_id

    @property
    def catalogue(self) -> CatalogueView:
        return self.state.catalogue

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

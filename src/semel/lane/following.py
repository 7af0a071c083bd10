"""The state of a lane that another leads, kept up by applying what is read of its journal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from semel.errors import CorruptJournal, NewerFormat
from semel.lane.commands import LaneSettings
from semel.lane.lanes import LanesView
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

    def __init__(
        self,
        settings: LaneSettings,
        number: int,
        source: Followed,
        check_level: Callable[[int], None] = lambda level: None,
    ) -> None:
        """`check_level` raises what is to be raised for a level that is not known here. Raises
        CorruptJournal."""
        self._source = source
        self._check_level = check_level
        self.state: LaneState = new_state(settings, number)
        """For the lane that goes on from here, if this node takes it."""
        with self._reading():
            rebuild(self.state, source)

    def read_on(self, source: Replayed) -> None:
        """Apply what was read since. Raises as `__init__`."""
        with self._reading():
            replay_on(self.state, source)

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
    def lanes(self) -> LanesView:
        """All of the cluster; what is followed is lane 0."""
        return self.state.lanes

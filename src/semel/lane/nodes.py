"""What lane 0 knows of the nodes besides its leader: who stands by, and what all can read."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from semel.lane import facts
from semel.lane.commands import Claim, Decided, Environment
from semel.lane.frame import Frame
from semel.lane.lanes import Placement
from semel.lane.leader import (
    NO_LISTENERS,
    LedBy,
    Listeners,
    NodeAddress,
    StoredListener,
    stored_listeners,
)
from semel.lane.state import LaneState
from semel.world import Moment


def standing_by(state: LaneState) -> list[NodeAddress]:
    """By their ids. Who has taken over may be named still as one that stands by."""
    leader_id = None if state.led is None else state.led.node_id
    return [NodeAddress(*node) for node in state.standing_by if node[0] != leader_id]


class NoteStandbys(NamedTuple):
    """What every node tells clients, so that it is said to all of them; nothing if it was said."""

    nodes: tuple[NodeAddress, ...]
    listeners: tuple[StoredListener, ...] = ()

    @classmethod
    def of(
        cls, nodes: Iterable[NodeAddress], listeners: Mapping[int, Listeners] = NO_LISTENERS
    ) -> "NoteStandbys":
        return cls(tuple(sorted(nodes)), stored_listeners(listeners))

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        leader = () if state.led is None else (state.led.node_id,)
        known = tuple(standing_by(state)), stored_listeners(state.listeners, leader)
        if (self.nodes, self.listeners) != known:
            nodes = tuple((*node,) for node in self.nodes)
            frame.add_fact(facts.StandingBy(nodes, self.listeners))
        return Decided(None, frame, Claim.ENDING)


class RaiseLevel(NamedTuple):
    """Nothing if it is there already."""

    level: int

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        if self.level > state.level:
            frame.add_fact(facts.LevelRaised(self.level))
        return Decided(None, frame)


# Where the other lanes are led.


class AddLanes(NamedTuple):
    """Let there be so many; nothing if there are as many."""

    lane_count: int

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        if self.lane_count > state.lanes.count:
            frame.add_fact(facts.LanesAdded(self.lane_count))
        return Decided(None, frame)


class PlaceLanes(NamedTuple):
    """By their numbers; nothing for those that are placed so."""

    placed: Mapping[int, Placement]

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        for lane, placement in sorted(self.placed.items()):
            assert 0 < lane < state.lanes.count, f"lane {lane} is not placed"
            if state.lanes.placed.get(lane) != placement:
                frame.add_fact(facts.Placed(lane, *placement))
        return Decided(None, frame, Claim.ENDING)


class NoteTaken(NamedTuple):
    """Nothing if it was said, or another has taken the lane since."""

    lane: int
    led_by: LedBy

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        known = state.lanes.taken.get(self.lane)
        if known is None or (known != self.led_by and known.epoch <= self.led_by.epoch):
            frame.add_fact(facts.LaneTaken(self.lane, *self.led_by))
        return Decided(None, frame, Claim.ENDING)

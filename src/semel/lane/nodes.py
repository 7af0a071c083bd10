"""What lane 0 knows of the nodes besides its leader: who stands by, and what all can read."""

from collections.abc import Iterable
from typing import NamedTuple

from semel.lane import facts
from semel.lane.commands import Claim, Decided, Environment
from semel.lane.frame import Frame
from semel.lane.leader import NodeAddress
from semel.lane.state import LaneState
from semel.world import Moment


def standing_by(state: LaneState) -> list[NodeAddress]:
    """By their ids. Who has taken over may be named still as one that stands by."""
    leader_id = None if state.led is None else state.led.node_id
    return [NodeAddress(*node) for node in state.standing_by if node[0] != leader_id]


class NoteStandbys(NamedTuple):
    """What every node tells clients, so that it is said to all of them; nothing if it was said."""

    nodes: tuple[NodeAddress, ...]

    @classmethod
    def of(cls, nodes: Iterable[NodeAddress]) -> "NoteStandbys":
        return cls(tuple(sorted(nodes)))

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        if self.nodes != tuple(standing_by(state)):
            frame.add_fact(facts.StandingBy(tuple((*node,) for node in self.nodes)))
        return Decided(None, frame, Claim.ENDING)


class RaiseLevel(NamedTuple):
    """Nothing if it is there already."""

    level: int

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        frame = Frame(at)
        if self.level > state.level:
            frame.add_fact(facts.LevelRaised(self.level))
        return Decided(None, frame)

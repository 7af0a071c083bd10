"""Commands about the access list, whose rules are facts of lane 0."""

from typing import NamedTuple

from semel.access.rules import Rule
from semel.lane import facts
from semel.lane.commands import Decided, Environment
from semel.lane.frame import Frame
from semel.lane.state import LaneState
from semel.lane.users import check_level
from semel.world import Moment


class AddRules(NamedTuple):
    """Gives those that were not there."""

    rules: tuple[Rule, ...]

    def decide(
        self, state: LaneState, at: Moment, environment: Environment
    ) -> Decided[tuple[Rule, ...]]:
        check_level(state, "access lists")
        known = state.access_list
        new = tuple(dict.fromkeys(rule for rule in self.rules if rule not in known))
        frame = Frame(at)
        if new:
            frame.add_fact(facts.RulesAdded(tuple(rule.stored() for rule in new)))
        return Decided(new, frame)


class RemoveRules(NamedTuple):
    """Gives those that were there."""

    rules: tuple[Rule, ...]

    def decide(
        self, state: LaneState, at: Moment, environment: Environment
    ) -> Decided[tuple[Rule, ...]]:
        known = state.access_list
        gone = tuple(dict.fromkeys(rule for rule in self.rules if rule in known))
        frame = Frame(at)
        if gone:
            frame.add_fact(facts.RulesRemoved(tuple(rule.stored() for rule in gone)))
        return Decided(gone, frame)

"""Commands about quotas, which are facts of lane 0."""

from collections.abc import Mapping
from typing import NamedTuple

from semel.access.quotas import Entity
from semel.lane import facts
from semel.lane.commands import Decided, Environment
from semel.lane.frame import Frame
from semel.lane.state import LaneState
from semel.lane.users import check_level
from semel.world import Moment


class AlterQuotas(NamedTuple):
    """Quotas of one entity are set and dropped, together. What is so already is not said again."""

    entity: Entity
    changes: Mapping[str, float | None]
    """By the name of the quota; None drops it."""
    only_check: bool = False

    def decide(self, state: LaneState, at: Moment, environment: Environment) -> Decided[None]:
        check_level(state, "quotas")
        self.entity.check()
        values = dict(state.quotas.of(self.entity))
        for name, value in self.changes.items():
            if value is None:
                values.pop(name, None)
            else:
                self.entity.check_value(name, value)
                values[name] = value
        if self.only_check or values == state.quotas.of(self.entity):
            return Decided(None, None)
        frame = Frame(at)
        frame.add_fact(facts.QuotasSet(*self.entity, values))
        return Decided(None, frame)
